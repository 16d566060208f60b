<?php

namespace PgqExt\Messenger;

use PgqExt\Messenger\Exception\LeaseLostException;
use PgqExt\Messenger\Exception\QueueFullException;
use Symfony\Component\Messenger\Exception\TransportException;

/** A connection: a PDO of its own, which is opened when it is needed, or a PDO or Doctrine connection of the application. */
final class Database
{
    private const ERRORS = ['PQ001' => LeaseLostException::class, 'PQ002' => QueueFullException::class];

    /** PDO, \Doctrine\DBAL\Connection, or null while there is no connection */
    private ?object $link;
    private ?\Closure $connect;
    /** How many transactions were open before begin(); Doctrine counts those that are begun within another one. */
    private int $outer = 0;

    /** @param object $source a PDO, a Doctrine connection, or a closure that returns a new PDO */
    public function __construct(object $source)
    {
        $this->connect = $source instanceof \Closure ? $source : null;
        $this->link = $source instanceof \Closure ? null : $source;
        if ($this->link && !$this->link instanceof \PDO && !method_exists($this->link, 'executeQuery')) {
            throw new \TypeError(sprintf('expected a PDO or a Doctrine connection, got %s', get_debug_type($source)));
        }
    }

    /**
     * Runs a statement and returns its rows.
     *
     * @throws TransportException
     */
    public function query(string $sql, array $values = []): array
    {
        try {
            $this->link ??= ($this->connect)();
            if (!$this->link instanceof \PDO) {
                return $this->link->executeQuery($sql, $values)->fetchAllAssociative();
            }
            $statement = $this->link->prepare($sql);
            $statement->execute($values);

            return $statement->fetchAll(\PDO::FETCH_ASSOC);
        } catch (\Throwable $error) {
            throw $this->typed($error);
        }
    }

    /** Runs the body in a transaction: that of the application if one is open. */
    public function transactional(callable $body): mixed
    {
        if ($this->inTransaction()) {
            return $body();
        }
        $this->query('BEGIN');
        try {
            $result = $body();
            $this->query('COMMIT');

            return $result;
        } catch (\Throwable $error) {
            $this->tryRollback();
            throw $error;
        }
    }

    public function inTransaction(): bool
    {
        if (!$this->link) {
            return false;
        }

        return $this->link instanceof \PDO ? $this->link->inTransaction() : $this->link->isTransactionActive();
    }

    /** Begins a transaction that the application can see, for TransactionMiddleware. */
    public function begin(): void
    {
        $this->guarded(function () {
            $this->link ??= ($this->connect)();
            $this->outer = $this->open();
            $this->link->beginTransaction();
        });
    }

    public function commit(): void
    {
        $this->guarded(function () {
            if ($this->open() > $this->outer + 1) {
                throw new TransportException('The handler has begun a transaction, and has not ended it.');
            }
            $this->link->commit();
        });
    }

    /** Rolls back the transaction of begin(), and those that a handler has begun within it and left open. */
    public function rollBack(): void
    {
        try {
            while ($this->open() > $this->outer) {
                $this->link->rollBack();
            }
        } catch (\Throwable $error) {
            $this->typed($error); // a connection that is lost has rolled back
        }
    }

    /** Returns how many transactions are open, one within the other. */
    private function open(): int
    {
        return $this->link instanceof \PDO ? (int) $this->link->inTransaction() : (int) $this->link?->getTransactionNestingLevel();
    }

    /** Returns whether the error says that there is no server, or no connection to it. */
    public static function isLost(\Throwable $error): bool
    {
        return preg_match('/^(08|57P0)/', self::sqlState($error)) || ('HY000' === self::sqlState($error)
            && preg_match('/no connection|server closed|terminat|connection|Connection|SSL SYSCALL/', $error->getMessage()));
    }

    public static function sqlState(\Throwable $error): string
    {
        for ($cause = $error; $cause; $cause = $cause->getPrevious()) {
            if ($cause instanceof \PDOException) {
                return (string) ($cause->errorInfo[0] ?? $cause->getCode());
            }
            if (method_exists($cause, 'getSQLState')) {
                return (string) $cause->getSQLState();
            }
        }

        return '';
    }

    private function guarded(callable $body): void
    {
        try {
            $body();
        } catch (\Throwable $error) {
            throw $this->typed($error);
        }
    }

    private function tryRollback(): void
    {
        try {
            $this->query('ROLLBACK');
        } catch (TransportException) {
            // the connection is lost, and the transaction with it
        }
    }

    /** Returns the error as an exception of Messenger. Forgets a connection that is lost, so that the next call connects. */
    private function typed(\Throwable $error): \Throwable
    {
        if ('' === $state = self::sqlState($error)) {
            return $error;
        }
        if (self::isLost($error)) {
            if ($this->connect) {
                $this->link = null;
            } elseif (!$this->link instanceof \PDO) {
                $this->link->close(); // Doctrine connects again
            }
        }
        $class = self::ERRORS[$state] ?? TransportException::class;

        return new $class($error->getMessage(), 0, $error);
    }
}
