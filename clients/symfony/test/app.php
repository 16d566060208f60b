<?php
// The application of test/clients/symfony.pl: Messenger's own commands with the transport "jobs", retries and a handler that
// does what the message says.
//   app.php consume [OPTION...]        messenger:consume jobs
//   app.php setup                      messenger:setup-transports
//   app.php send STEPS [OPTIONS]       sends a message; OPTIONS: JSON, parameters of JobStamp, and delay (ms)
//   app.php send-in-transaction commit|rollback
// DSN: the DSN of the transport. RETRIES: retries of Messenger. SHARED: the transport uses the PDO of the application.
require '/usr/share/php/Symfony/Component/Console/autoload.php';
require '/usr/share/php/Symfony/Component/Messenger/autoload.php';
require '/usr/share/php/Symfony/Component/EventDispatcher/autoload.php';
spl_autoload_register(static function ($class) {
    if (str_starts_with($class, 'PgqExt\Messenger\\')) {
        require __DIR__.'/../src/'.strtr(substr($class, 17), '\\', '/').'.php';
    }
});

use PgqExt\Messenger\JobStamp;
use PgqExt\Messenger\PgqTransportFactory;
use PgqExt\Messenger\TransactionMiddleware;
use Psr\Container\ContainerInterface;
use Symfony\Component\Console\Application;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\Messenger\Command\ConsumeMessagesCommand;
use Symfony\Component\Messenger\Command\SetupTransportsCommand;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\EventListener\AddErrorDetailsStampListener;
use Symfony\Component\Messenger\EventListener\DispatchPcntlSignalListener;
use Symfony\Component\Messenger\EventListener\SendFailedMessageForRetryListener;
use Symfony\Component\Messenger\EventListener\StopWorkerOnSigtermSignalListener;
use Symfony\Component\Messenger\Exception\UnrecoverableMessageHandlingException;
use Symfony\Component\Messenger\Handler\HandlersLocator;
use Symfony\Component\Messenger\MessageBus;
use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
use Symfony\Component\Messenger\Retry\MultiplierRetryStrategy;
use Symfony\Component\Messenger\RoutableMessageBus;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;

final class Task
{
    public function __construct(public string $steps, public string $name)
    {
    }
}

final class Services implements ContainerInterface
{
    public function __construct(private array $services)
    {
    }

    public function get(string $id)
    {
        return $this->services[$id];
    }

    public function has(string $id): bool
    {
        return isset($this->services[$id]);
    }
}

function database(): PDO
{
    static $db;
    try {
        $db?->query('SELECT');
    } catch (PDOException $error) {
        $db = getenv('SHARED') ? throw $error : null;
    }

    return $db ??= new PDO('pgsql:', options: [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
}

function note(string $text): void
{
    database()->prepare('INSERT INTO done (name) VALUES (?)')->execute([$text]);
}

$handle = static function (Task $task) {
    foreach (explode(' ', $task->steps) as $step) {
        [$what, $value] = explode(':', $step) + [1 => null];
        match ($what) {
            'note' => note($task->name),
            'begin' => note('begin '.$task->name),
            'wait' => database()->query("SELECT wait_for_gate('$value')"),
            'fail' => throw new RuntimeException("odd \0 \xe9 text"),
            'once' => database()->query("SELECT count(*) FROM done WHERE name = 'tried {$task->name}'")->fetchColumn() || (note('tried '.$task->name) ?? throw new RuntimeException('the first time')),
            'never' => throw new UnrecoverableMessageHandlingException('never'),
        };
    }
};

$transport = (new PgqTransportFactory())->createTransport(getenv('DSN'), getenv('SHARED') ? ['connection' => database()] : [], new PhpSerializer());
$command = $argv[1];
if (str_starts_with($command, 'send')) {
    $options = json_decode($argv[3] ?? '{}', true);
    $stamps = isset($options['delay']) ? [new DelayStamp($options['delay'])] : [];
    $name = $options['name'] ?? 'task';
    unset($options['delay'], $options['name']);
    if ('send-in-transaction' === $command) {
        database()->beginTransaction();
        note('sent');
        $transport->send(new Envelope(new Task('note', 'task')));
        'commit' === $argv[2] ? database()->commit() : database()->rollBack();
        exit;
    }
    $sent = $transport->send(new Envelope(new Task($argv[2], $name), [...$stamps, new JobStamp(...$options)]));
    echo $sent->last(TransportMessageIdStamp::class)->getId(), "\n";
    exit;
}
$services = new Services(['jobs' => $transport]);
$dispatcher = new EventDispatcher();
$retries = new Services(['jobs' => new MultiplierRetryStrategy((int) getenv('RETRIES'), 200, 2)]);
foreach ([new AddErrorDetailsStampListener(), new SendFailedMessageForRetryListener($services, $retries), new StopWorkerOnSigtermSignalListener(), new DispatchPcntlSignalListener()] as $listener) {
    $dispatcher->addSubscriber($listener);
}
$bus = new MessageBus([...(getenv('SHARED') ? [new TransactionMiddleware()] : []), new HandleMessageMiddleware(new HandlersLocator([Task::class => [$handle]]))]);
$application = new Application();
$application->add(new ConsumeMessagesCommand(new RoutableMessageBus(new Services([]), $bus), $services, $dispatcher));
$application->add(new SetupTransportsCommand($services, ['jobs']));
$_SERVER['argv'] = ['app.php', ...('setup' === $command ? ['messenger:setup-transports'] : ['messenger:consume', 'jobs', '--sleep=0.1', '-q', ...array_slice($argv, 2)])];
$application->run();
