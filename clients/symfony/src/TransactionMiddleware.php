<?php

namespace PgqExt\Messenger;

use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Middleware\MiddlewareInterface;
use Symfony\Component\Messenger\Middleware\StackInterface;

/**
 * Handles a received message and acknowledges it in one transaction, on the connection of its transport. If the transport uses
 * the connection of the application, what the handlers write there is kept exactly once.
 */
class TransactionMiddleware implements MiddlewareInterface
{
    public function handle(Envelope $envelope, StackInterface $stack): Envelope
    {
        $stamp = $envelope->last(LeaseStamp::class);
        if (null === $stamp?->lease || $stamp->ended) {
            return $stack->next()->handle($envelope, $stack);
        }
        $database = $stamp->queue->database;
        $database->begin();
        try {
            $envelope = $stack->next()->handle($envelope, $stack);
            $stamp->queue->ack($stamp);
            $database->commit();

            return $envelope;
        } catch (\Throwable $error) {
            $stamp->ended = false; // the ack was rolled back
            $database->rollBack();
            throw $error;
        }
    }
}
