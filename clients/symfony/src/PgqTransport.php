<?php

namespace PgqExt\Messenger;

use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Exception\LogicException;
use Symfony\Component\Messenger\Exception\MessageDecodingFailedException;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\ErrorDetailsStamp;
use Symfony\Component\Messenger\Stamp\RedeliveryStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\Receiver\ListableReceiverInterface;
use Symfony\Component\Messenger\Transport\Receiver\MessageCountAwareInterface;
use Symfony\Component\Messenger\Transport\Receiver\QueueReceiverInterface;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\SetupableTransportInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/** Sends messages as jobs of pgq_ext, and receives them with leases. */
class PgqTransport implements TransportInterface, SetupableTransportInterface, MessageCountAwareInterface, ListableReceiverInterface, QueueReceiverInterface, KeepaliveSupport
{
    public function __construct(private readonly Queue $queue, private readonly SerializerInterface $serializer)
    {
    }

    /**
     * Enqueues the message. If Messenger sends a message again that this transport has handed out, that is a retry: the job
     * fails with that delay and keeps its id, its group and its unique key.
     */
    public function send(Envelope $envelope): Envelope
    {
        $delay = $envelope->last(DelayStamp::class)?->getDelay();
        $stamp = $envelope->last(LeaseStamp::class);
        if ($this->isRetry($envelope, $stamp)) {
            $message = $this->serializer->encode($envelope->withoutAll(TransportMessageIdStamp::class));
            $this->queue->retry($stamp, Codec::encodeProgress($message), ((int) $delay).' ms', $this->errorOf($envelope));

            return $envelope;
        }
        $envelope = $envelope->withoutAll(TransportMessageIdStamp::class);
        [$payload, $headers] = Codec::encode($this->serializer->encode($envelope));
        $again = null !== $envelope->last(RedeliveryStamp::class);
        $options = $envelope->last(JobStamp::class)?->parameters($again) ?? [];
        if ($delay > 0) {
            $options['delay'] = $delay.' ms';
        }

        return $envelope->with(new TransportMessageIdStamp($this->queue->enqueue($payload, $headers, $options)));
    }

    public function get(): iterable
    {
        return $this->received($this->queue->claim());
    }

    public function getFromQueues(array $queueNames): iterable
    {
        return $this->received($this->queue->claim($queueNames));
    }

    public function ack(Envelope $envelope): void
    {
        $this->queue->ack($this->stampOf($envelope));
    }

    public function reject(Envelope $envelope): void
    {
        $this->queue->reject($this->stampOf($envelope), $this->errorOf($envelope));
    }

    public function keepalive(Envelope $envelope, ?int $seconds = null): void
    {
        $stamp = $this->stampOf($envelope);
        if (!$stamp->ended) {
            $this->queue->extend($stamp, $seconds);
        }
    }

    public function setup(): void
    {
        $this->queue->setup();
    }

    public function getMessageCount(): int
    {
        return $this->queue->count();
    }

    public function all(?int $limit = null): iterable
    {
        foreach ($this->queue->waiting($limit) as $row) {
            yield $this->envelopeOf($row);
        }
    }

    public function find(mixed $id): ?Envelope
    {
        $row = ctype_digit((string) $id) ? $this->queue->find($id) : null;

        return $row ? $this->envelopeOf($row) : null;
    }

    private function isRetry(Envelope $envelope, ?LeaseStamp $stamp): bool
    {
        return $stamp?->queue === $this->queue && null !== $stamp->lease && !$stamp->ended
            && RedeliveryStamp::getRetryCountFromEnvelope($envelope) > $stamp->retries;
    }

    /** A message that cannot be decoded becomes a dead letter. */
    private function received(?array $row): array
    {
        if (null === $row) {
            return [];
        }
        try {
            return [$this->envelopeOf($row)];
        } catch (MessageDecodingFailedException $error) {
            $stamp = new LeaseStamp($this->queue, $row['job_id'], $row['lease'], $row['attempt'], 0);
            $this->queue->reject($stamp, Codec::storable($error->getMessage()));
            throw $error;
        }
    }

    private function envelopeOf(array $row): Envelope
    {
        $envelope = $this->serializer->decode(Codec::decode($row))->withoutAll(TransportMessageIdStamp::class);
        $retries = RedeliveryStamp::getRetryCountFromEnvelope($envelope);

        return $envelope->with(
            new LeaseStamp($this->queue, (string) $row['job_id'], null === $row['lease'] ? null : (string) $row['lease'], (int) $row['attempt'], $retries),
            new TransportMessageIdStamp((string) $row['job_id']),
        );
    }

    private function stampOf(Envelope $envelope): LeaseStamp
    {
        return $envelope->last(LeaseStamp::class) ?? throw new LogicException('The envelope has no LeaseStamp: the pgq transport has not handed it out.');
    }

    /** Messenger's listener AddErrorDetailsStampListener has noted the error. */
    private function errorOf(Envelope $envelope): ?string
    {
        $details = $envelope->last(ErrorDetailsStamp::class);

        return $details ? Codec::storable($details->getExceptionClass().': '.$details->getExceptionMessage()) : null;
    }
}
