<?php
// The classes that Symfony's tests use, on the transport of this project. The environment has MESSENGER_TESTS, the folder of the
// component with its tests, and PGQ_CLIENT, the folder clients/symfony.
namespace {
    foreach (['Component/Messenger', 'Component/Serializer', 'Component/PropertyAccess', 'Component/Process', 'Component/EventDispatcher', 'Component/DependencyInjection', 'Component/Console'] as $part) {
        require_once "/usr/share/php/Symfony/$part/autoload.php";
    }
    foreach (glob('/usr/share/php/{Symfony/Component/HttpKernel,Doctrine/DBAL}/autoload.php', GLOB_BRACE) as $file) {
        require_once $file;
    }
    spl_autoload_register(static function ($class) {
        foreach (['PgqExt\Messenger\\' => getenv('PGQ_CLIENT').'/src/', 'Symfony\Component\Messenger\\' => getenv('MESSENGER_TESTS').'/'] as $prefix => $folder) {
            $file = $folder.strtr(substr($class, strlen($prefix)), '\\', '/').'.php';
            if (str_starts_with($class, $prefix) && is_file($file)) {
                require $file;
            }
        }
    });
    function pgq_transport(string $queue, $serializer = null): PgqExt\Messenger\PgqTransport
    {
        return (new PgqExt\Messenger\PgqTransportFactory())->createTransport("pgq://?queue=$queue", [], $serializer ?? new Symfony\Component\Messenger\Transport\Serialization\PhpSerializer());
    }
}

namespace Symfony\Component\Messenger\Tests {
    use PgqExt\Messenger\PgqTransport;

    /** A transport with a queue of its own. */
    class DummyFailureTestSenderAndReceiver extends PgqTransport
    {
        public function __construct()
        {
            static $count = 0;
            parent::__construct(new \PgqExt\Messenger\Queue(new \PgqExt\Messenger\Configuration('pgq://?max_attempts=100&queue=failure-'.getmypid().'-'.++$count, [])), new \Symfony\Component\Messenger\Transport\Serialization\PhpSerializer());
        }

        /** A retry of Messenger has a delay, which the dummy did not know: look for the message without it. */
        public function get(): iterable
        {
            $this->hurry();

            return parent::get();
        }

        public function getMessagesWaitingToBeReceived(): array
        {
            $this->hurry();

            return iterator_to_array($this->all());
        }

        private function hurry(): void
        {
            (new \PDO('pgsql:'))->query("SELECT pgq_retry(job_id) FROM pgq_ext.job_status WHERE state = 'scheduled'")->fetchAll();
        }
    }
}

namespace Symfony\Component\Messenger\Tests\Fixtures {
    use Symfony\Component\Messenger\Envelope;
    use Symfony\Component\Messenger\Transport\Receiver\ReceiverInterface;

    /** Sends each delivery to a queue of its own when it is asked for, and counts what ends. */
    class DummyReceiver implements ReceiverInterface
    {
        private $transport;
        private array $acknowledged = [];
        private int $rejected = 0;

        public function __construct(private array $deliveries)
        {
            static $count = 0;
            $this->transport = \pgq_transport('worker-'.getmypid().'-'.++$count);
        }

        public function get(): iterable
        {
            foreach (array_shift($this->deliveries) ?? [] as $envelope) {
                $this->transport->send($envelope);
            }
            $envelopes = [];
            while ($next = $this->transport->get()) {
                array_push($envelopes, ...$next);
            }

            return $envelopes;
        }

        public function ack(Envelope $envelope): void
        {
            $this->transport->ack($envelope);
            $this->acknowledged[] = $envelope;
        }

        public function reject(Envelope $envelope): void
        {
            $this->transport->reject($envelope);
            ++$this->rejected;
        }

        public function getAcknowledgeCount(): int
        {
            return count($this->acknowledged);
        }

        public function getRejectCount(): int
        {
            return $this->rejected;
        }

        public function getAcknowledgedEnvelopes(): array
        {
            return $this->acknowledged;
        }
    }
}

namespace Symfony\Component\Messenger\Bridge\Amqp\Transport {
    use PgqExt\Messenger\LeaseStamp;
    use Symfony\Component\Messenger\Envelope;
    use Symfony\Component\Messenger\Stamp\StampInterface;

    class_alias(LeaseStamp::class, AmqpReceivedStamp::class);

    class AmqpStamp implements StampInterface
    {
        public function __construct(public string $routingKey)
        {
        }
    }

    class Connection
    {
        private array $transports = [];

        public static function fromDsn(string $dsn): self
        {
            return new self();
        }

        public function transport($serializer = null)
        {
            return $this->transports[$serializer ? spl_object_id($serializer) : 0] ??= \pgq_transport('amqp', $serializer);
        }

        public function setup(): void
        {
            $this->transport()->setup();
        }

        public function purgeQueues(): void
        {
            $db = new \PDO('pgsql:');
            $db->query("SELECT pgq_cancel(job_id) FROM pgq_ext.job_status WHERE queue = 'amqp'")->fetchAll();
        }

        public function countMessagesInQueues(): int
        {
            return $this->transport()->getMessageCount();
        }
    }

    class AmqpSender
    {
        public function __construct(private Connection $connection, private $serializer = null)
        {
        }

        public function send(Envelope $envelope): Envelope
        {
            return $this->connection->transport($this->serializer)->send($envelope);
        }
    }

    class AmqpReceiver implements \Symfony\Component\Messenger\Transport\Receiver\ReceiverInterface
    {
        public function __construct(private Connection $connection, private $serializer = null)
        {
        }

        public function get(): iterable
        {
            yield from $this->connection->transport($this->serializer)->get();
        }

        public function ack(Envelope $envelope): void
        {
            $this->connection->transport($this->serializer)->ack($envelope);
        }

        public function reject(Envelope $envelope): void
        {
            $this->connection->transport($this->serializer)->reject($envelope);
        }
    }
}

namespace Symfony\Component\Messenger\Bridge\Doctrine\Transport {
    use PgqExt\Messenger\Codec;
    use PgqExt\Messenger\Configuration;
    use PgqExt\Messenger\LeaseStamp;
    use PgqExt\Messenger\Queue;

    /** The connection of the Doctrine transport, on Doctrine's connection. */
    class Connection
    {
        private Queue $queue;
        private array $stamps = [];

        public function __construct(array $configuration, private \Doctrine\DBAL\Connection $driverConnection)
        {
            $driverConnection->executeQuery('SELECT pgq_cancel(job_id) FROM pgq_ext.job_status')->fetchAllAssociative();
            $this->queue = new Queue(new Configuration('pgq+doctrine://default', []), $driverConnection);
        }

        public function setup(): void
        {
            $this->queue->setup();
        }

        public function send(string $body, array $headers, int $delay = 0): string
        {
            // a negative delay is a time in the past
            $options = $delay < 0 ? ['run_at' => date('c', time() + intdiv($delay, 1000))] : ['delay' => "$delay ms"];

            return $this->queue->enqueue(...Codec::encode(['body' => $body, 'headers' => $headers]), options: $options);
        }

        public function get(): ?array
        {
            $this->claimDelivered();
            if (!$row = $this->queue->claim()) {
                return null;
            }
            $this->stamps[$row['job_id']] = new LeaseStamp($this->queue, $row['job_id'], $row['lease'], $row['attempt'], 0);

            return ['id' => $row['job_id']] + Codec::decode($row);
        }

        public function reject(string $id): void
        {
            $this->queue->reject($this->stamps[$id], null);
        }

        public function getMessageCount(): int
        {
            $this->claimDelivered();

            return $this->queue->count();
        }

        /** The jobs of priority 1 stand for messages that were delivered a moment ago. */
        private function claimDelivered(): void
        {
            $count = $this->driverConnection->fetchOne('SELECT count(*) FROM pgq_ext.job WHERE priority = 1');
            while ($count-- > 0) {
                $this->queue->claim();
            }
        }
    }
}
