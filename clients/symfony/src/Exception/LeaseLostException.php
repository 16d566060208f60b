<?php

namespace PgqExt\Messenger\Exception;

use Symfony\Component\Messenger\Exception\RecoverableExceptionInterface;
use Symfony\Component\Messenger\Exception\TransportException;

/**
 * The lease of the message has ended: the work took too long, or the job was cancelled. Another worker may have it. It is
 * recoverable, so that Messenger does not send the message to the failure transport as well.
 */
class LeaseLostException extends TransportException implements RecoverableExceptionInterface
{
}
