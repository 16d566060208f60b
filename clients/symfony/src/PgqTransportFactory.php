<?php

namespace PgqExt\Messenger;

use Symfony\Component\Messenger\Exception\TransportException;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\TransportFactoryInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/** Makes transports of the DSNs pgq://, pgq+pgsql:// and pgq+doctrine://. */
class PgqTransportFactory implements TransportFactoryInterface
{
    /** @param object|null $registry Doctrine's registry, for pgq+doctrine:// */
    public function __construct(private readonly ?object $registry = null)
    {
    }

    /** @param array $options those of the DSN, and connection: a PDO or a Doctrine connection of the application */
    public function createTransport(#[\SensitiveParameter] string $dsn, array $options, SerializerInterface $serializer): TransportInterface
    {
        $configuration = new Configuration($dsn, $options);
        $connection = $options['connection'] ?? null;
        if (null !== $configuration->doctrine && !$connection) {
            $connection = $this->doctrineConnection($configuration->doctrine);
        }

        return new PgqTransport(new Queue($configuration, $connection), $serializer);
    }

    public function supports(#[\SensitiveParameter] string $dsn, array $options): bool
    {
        return 1 === preg_match('/^pgq(\+pgsql|\+doctrine)?:/', $dsn);
    }

    private function doctrineConnection(string $name): object
    {
        if (!$this->registry) {
            throw new TransportException('A DSN pgq+doctrine:// needs Doctrine: pass its registry to PgqTransportFactory.');
        }
        try {
            return $this->registry->getConnection($name);
        } catch (\InvalidArgumentException $error) {
            throw new TransportException(sprintf('There is no Doctrine connection "%s".', $name), 0, $error);
        }
    }
}
