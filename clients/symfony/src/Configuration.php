<?php

namespace PgqExt\Messenger;

use Symfony\Component\Messenger\Exception\InvalidArgumentException;

/**
 * What a DSN says: pgq://user:password@host:port,host:port/database?option=value. Without hosts, PGHOST, PGDATABASE and so on
 * name the database. pgq+doctrine://name names a connection of Doctrine.
 */
final class Configuration
{
    /** The options of the transport, with their defaults. */
    private const OPTIONS = [
        'queue' => 'default', // several: a,b
        'wait' => 0, // how long get() waits for a message
        'lease_time' => null, // default: that of the queue
        'worker' => null, // default: host name and process id
        'auto_setup' => true, // creates a queue that does not exist
        'on_reject' => 'dead', // or delete
        'reconnect_time' => 60, // seconds without a server after which get() raises an error
    ];
    /** Options of pgq_create_queue, for setup. Those that are not given are left alone. */
    private const QUEUE_OPTIONS = [
        'max_runtime', 'max_attempts', 'backoff_base', 'backoff_max', 'backoff_jitter', 'concurrency', 'group_concurrency',
        'log_attempts', 'keep_attempts', 'keep_finished', 'keep_dead', 'notify', 'rate_limit', 'rate_period', 'fifo', 'max_depth',
        'group_rate_limit', 'fair', 'lease_time',
    ];
    /** Parameters of libpq. */
    private const LINK_OPTIONS = [
        'sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'application_name', 'connect_timeout', 'target_session_attrs', 'options', 'service',
        'keepalives_idle', 'tcp_user_timeout',
    ];
    private const DSN = '~^pgq(?:\+pgsql|\+doctrine)?:(?://)?(?:(?<user>[^:@/?]*)(?::(?<password>[^@/?]*))?@)?(?<hosts>[^/?]*)(?:/(?<database>[^?]*))?(?:\?(?<query>.*))?$~';

    /** @var string[] */
    public readonly array $queues;
    public readonly string $wait;
    public readonly ?string $leaseTime;
    public readonly string $worker;
    public readonly bool $autoSetup;
    public readonly bool $deletesRejected;
    public readonly float $reconnectTime;
    public readonly array $queueOptions;
    /** The name of Doctrine's connection, or null. */
    public readonly ?string $doctrine;
    /** Returns a new PDO. */
    public readonly \Closure $connect;

    public function __construct(#[\SensitiveParameter] string $dsn, array $options)
    {
        if (!preg_match(self::DSN, $dsn, $parts)) {
            throw new InvalidArgumentException('The DSN of the pgq transport is invalid. Example: pgq://user:password@host/database?queue=mail');
        }
        parse_str($parts['query'] ?? '', $query);
        unset($options['transport_name'], $options['connection']);
        $options = $query + $options;
        $known = array_merge(array_keys(self::OPTIONS), self::QUEUE_OPTIONS, self::LINK_OPTIONS);
        if ($unknown = array_diff(array_keys($options), $known)) {
            throw new InvalidArgumentException(sprintf('Unknown options of the pgq transport: [%s]. Known are [%s].', implode(', ', $unknown), implode(', ', $known)));
        }
        $this->queueOptions = array_map(self::text(...), array_intersect_key($options, array_flip(self::QUEUE_OPTIONS)));
        $this->doctrine = str_starts_with($dsn, 'pgq+doctrine:') ? ($parts['hosts'] ?: 'default') : null;
        $this->connect = self::connector($parts, array_intersect_key($options, array_flip(self::LINK_OPTIONS)));
        $options += self::OPTIONS;
        if (!\in_array($options['on_reject'], ['dead', 'delete'], true)) {
            throw new InvalidArgumentException(sprintf('The option on_reject of the pgq transport is "dead" or "delete", not "%s".', $options['on_reject']));
        }
        $this->queues = \is_array($options['queue']) ? $options['queue'] : array_map('trim', explode(',', $options['queue']));
        $this->wait = self::interval($options['wait']);
        $this->leaseTime = null === $options['lease_time'] ? null : self::interval($options['lease_time']);
        $this->worker = $options['worker'] ?? gethostname().':'.getmypid();
        $this->autoSetup = filter_var($options['auto_setup'], \FILTER_VALIDATE_BOOLEAN);
        $this->deletesRejected = 'delete' === $options['on_reject'];
        $this->reconnectTime = (float) $options['reconnect_time'];
    }

    /** A number means seconds. */
    public static function interval(mixed $value): string
    {
        return is_numeric($value) ? $value.' s' : (string) $value;
    }

    private static function text(mixed $value): string
    {
        return \is_bool($value) ? ($value ? 'true' : 'false') : (string) $value;
    }

    /** PDO makes spaces of semicolons, so a value of libpq is quoted. User and password are passed beside it. */
    private static function connector(array $parts, array $link): \Closure
    {
        $hosts = $ports = [];
        foreach (array_filter(explode(',', $parts['hosts'] ?? '')) as $address) {
            preg_match('~^(\[[^]]*\]|[^:]*)(?::(\d*))?$~', $address, $found);
            $hosts[] = rawurldecode(trim($found[1] ?? $address, '[]'));
            $ports[] = $found[2] ?? '';
        }
        $link += ['host' => implode(',', $hosts), 'port' => implode(',', array_filter($ports) ? $ports : []), 'dbname' => rawurldecode($parts['database'] ?? '')];
        if (\count($hosts) > 1) {
            $link += ['target_session_attrs' => 'read-write'];
        }
        // with these settings of TCP, a machine that is down is noticed within seconds
        $link += ['keepalives_idle' => 5, 'keepalives_interval' => 2, 'keepalives_count' => 3, 'tcp_user_timeout' => 10000];
        $dsn = 'pgsql:';
        foreach (array_filter($link, static fn ($value) => '' !== (string) $value) as $name => $value) {
            $dsn .= $name."='".addcslashes($value, "'\\")."' ";
        }
        $user = rawurldecode($parts['user'] ?? '') ?: null;
        $password = rawurldecode($parts['password'] ?? '') ?: null;

        // without prepared statements it also works behind a pooler in transaction mode
        return static fn () => new \PDO($dsn, $user, $password, [
            \PDO::ATTR_ERRMODE => \PDO::ERRMODE_EXCEPTION, \PDO::PGSQL_ATTR_DISABLE_PREPARES => true,
        ]);
    }
}
