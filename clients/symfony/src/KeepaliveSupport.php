<?php

namespace PgqExt\Messenger;

use Symfony\Component\Messenger\Transport\Receiver\KeepaliveReceiverInterface;

// Symfony 7.2 and later: messenger:consume --keepalive
if (interface_exists(KeepaliveReceiverInterface::class)) {
    interface KeepaliveSupport extends KeepaliveReceiverInterface
    {
    }
} else {
    interface KeepaliveSupport
    {
    }
}
