<?php

namespace PgqExt\Messenger\Exception;

use Symfony\Component\Messenger\Exception\TransportException;

/** The queue has as many jobs as its option max_depth allows. */
class QueueFullException extends TransportException
{
}
