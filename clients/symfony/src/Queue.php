<?php

namespace PgqExt\Messenger;

use PgqExt\Messenger\Exception\LeaseLostException;
use Symfony\Component\Messenger\Exception\TransportException;

/** The calls of pgq_ext that the transport makes. */
final class Queue
{
    public readonly Database $database;
    private bool $connected = false;
    private ?float $lostSince = null;

    public function __construct(public readonly Configuration $configuration, ?object $connection = null)
    {
        $this->database = new Database($connection ?? $configuration->connect);
    }

    /** Enqueues a job in the first queue and returns its id. Options: parameters of pgq_enqueue by their names. */
    public function enqueue(string $payload, ?string $headers, array $options): string
    {
        $sql = 'SELECT pgq_enqueue(?, ?, headers => ?';
        foreach (array_keys($options) as $name) {
            $sql .= ", $name => ?";
        }
        $values = [$this->configuration->queues[0], $payload, $headers, ...array_values($options)];

        return (string) $this->withSetup(fn () => $this->value($sql.')', $values));
    }

    /**
     * Claims a job of one of the queues; null: there is none. While the server is restarted there is none, too; after
     * reconnect_time the error is raised.
     *
     * @param string[]|null $queues default: those of the DSN
     */
    public function claim(?array $queues = null): ?array
    {
        $sql = 'SELECT job_id, lease, attempt, payload, headers, progress FROM pgq_claim_any(?, wait => ?, lease_time => ?, worker => ?)';
        $configuration = $this->configuration;
        $values = [self::arrayOf($queues ?? $configuration->queues), $configuration->wait, $configuration->leaseTime, $configuration->worker];
        try {
            $row = $this->withSetup(fn () => $this->database->query($sql, $values)[0] ?? null);
            $this->connected = true;
            $this->lostSince = null;

            return $row;
        } catch (TransportException $error) {
            $now = hrtime(true) / 1e9; // not the time of day, which can be set
            if (!$this->connected || !Database::isLost($error) || $now - ($this->lostSince ??= $now) >= $configuration->reconnectTime) {
                throw $error;
            }

            return null;
        }
    }

    /** Acknowledges the job. A connection that is lost is replaced once: the lease is still good. */
    public function ack(LeaseStamp $stamp): void
    {
        $this->end($stamp, fn () => null === $stamp->lease
            ? $this->value('SELECT count(*) FROM pgq_finish(?)', [self::arrayOf([$stamp->jobId])])
            : $this->value('SELECT pgq_ack(?, ?)', [$stamp->jobId, $stamp->lease]));
    }

    /** Makes a dead letter of the job, or deletes it. If the lease has ended, another worker decides about the job. */
    public function reject(LeaseStamp $stamp, ?string $error): void
    {
        $this->end($stamp, fn () => match (true) {
            null === $stamp->lease => $this->value('SELECT pgq_cancel(?)', [$stamp->jobId]),
            $this->configuration->deletesRejected => $this->value('SELECT count(*) FROM pgq_ack_many(?, ?)', [self::arrayOf([$stamp->jobId]), self::arrayOf([$stamp->lease])]),
            default => $this->value("SELECT pgq_fail(?, ?, error => ?, retry => 'false')", [$stamp->jobId, $stamp->lease, $error]),
        });
    }

    /** Fails the attempt, and keeps the message as it is now for the next attempt. For a lost lease see reject. */
    public function retry(LeaseStamp $stamp, string $progress, string $delay, ?string $error): void
    {
        $call = function () use ($stamp, $progress, $delay, $error) {
            $this->value('SELECT pgq_progress(?, ?, ?)', [$stamp->jobId, $stamp->lease, $progress]);
            $this->value('SELECT pgq_fail(?, ?, error => ?, retry_in => ?)', [$stamp->jobId, $stamp->lease, $error, $delay]);
        };
        try {
            $this->end($stamp, fn () => $this->database->transactional($call));
        } catch (LeaseLostException) {
            $stamp->ended = true;
        }
    }

    /** Extends the lease. In an aborted transaction that is impossible; then the next call does it. */
    public function extend(LeaseStamp $stamp, ?int $seconds): void
    {
        try {
            $end = $this->value('SELECT pgq_extend(?, ?, ?)', [$stamp->jobId, $stamp->lease, null === $seconds ? null : $seconds.' s']);
        } catch (TransportException $error) {
            if ('25P02' === Database::sqlState($error)) {
                return;
            }
            throw $error;
        }
        if (null === $end && !$stamp->ended) {
            throw new LeaseLostException(sprintf('The lease of job %s has ended, or the job was cancelled.', $stamp->jobId));
        }
    }

    /** Creates the queues; gives those that exist the options of the DSN. */
    public function setup(): void
    {
        foreach ($this->configuration->queues as $queue) {
            if ($this->call('pgq_create_queue', $queue, ['if_not_exists' => 'true']) || !$this->configuration->queueOptions) {
                continue;
            }
            $this->call('pgq_alter_queue', $queue, []);
        }
    }

    /** Returns how many messages could be handled now. */
    public function count(): int
    {
        $sql = 'SELECT coalesce(sum(ready), 0) FROM pgq_ext.queue_status WHERE queue = ANY (?::text[])';

        return (int) $this->value($sql, [self::arrayOf($this->configuration->queues)]);
    }

    /** Returns the waiting jobs that are due, in the order in which they are handed out. */
    public function waiting(?int $limit): array
    {
        return $this->jobs('run_at <= clock_timestamp() AND NOT EXISTS (SELECT FROM pgq_ext.lease WHERE lease.job_id = job.job_id)', [], $limit);
    }

    public function find(string $id): ?array
    {
        return $this->jobs('job_id = ?', [$id], 1)[0] ?? null;
    }

    private function jobs(string $condition, array $values, ?int $limit): array
    {
        return $this->database->query("SELECT job_id, NULL AS lease, attempts + 1 AS attempt, payload, headers, progress
            FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue.queue = ANY (?::text[]) AND $condition
            ORDER BY job.priority DESC, run_at, job_id LIMIT ?::bigint", [self::arrayOf($this->configuration->queues), ...$values, $limit]);
    }

    /**
     * Runs the call once; a second call for the same delivery does nothing. In a transaction of the application it is not
     * repeated: on a new connection it would take effect without the work, which is lost.
     */
    private function end(LeaseStamp $stamp, callable $call): void
    {
        if ($stamp->ended) {
            return;
        }
        $inTransaction = $this->database->inTransaction();
        try {
            $call();
        } catch (TransportException $error) {
            if ($inTransaction || !Database::isLost($error)) {
                throw $error;
            }
            $call();
        }
        $stamp->ended = true;
    }

    /** Creates the queues if one does not exist. In a transaction of the application that is impossible after the error. */
    private function withSetup(callable $call): mixed
    {
        try {
            return $call();
        } catch (TransportException $error) {
            if ('42704' !== Database::sqlState($error) || !$this->configuration->autoSetup || $this->database->inTransaction()) {
                throw $error;
            }
            try {
                $this->setup();
            } catch (TransportException $second) {
                throw new TransportException($error->getMessage()."\nIt could not be created: ".$second->getMessage(), 0, $second);
            }

            return $call();
        }
    }

    private function call(string $function, string $queue, array $more): mixed
    {
        $options = $this->configuration->queueOptions + $more;
        $sql = "SELECT $function(?";
        foreach (array_keys($options) as $name) {
            $sql .= ", $name => ?";
        }

        return $this->value($sql.')', [$queue, ...array_values($options)]);
    }

    private function value(string $sql, array $values): mixed
    {
        $rows = $this->database->query($sql, $values);

        return $rows ? reset($rows[0]) : null;
    }

    /** Returns the text of an array of PostgreSQL. */
    private static function arrayOf(array $values): string
    {
        return '{'.implode(',', array_map(static fn ($value) => '"'.addcslashes($value, '"\\').'"', $values)).'}';
    }
}
