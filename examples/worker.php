<?php
// Works off the queue "mail"; PGHOST, PGDATABASE and so on say where. SIGTERM: the job in hand is finished, what has not begun
// is given back. If a job is not ours any more (it took too long, or was cancelled) pgq_ack fails, which undoes its work. Where
// there is a standby, PGHOST=one,two and PGTARGETSESSIONATTRS=read-write, and it goes on after a failover.
$stopping = false;
pcntl_async_signals(true);
pcntl_signal(SIGTERM, function () use (&$stopping) { $stopping = true; });

function connect(): PDO
{
    return new PDO('pgsql:', options: [PDO::PGSQL_ATTR_DISABLE_PREPARES => true]);  // for poolers
}

function call(PDO $db, string $sql, array $values = []): array
{
    $statement = $db->prepare($sql);
    $statement->execute($values);
    return $statement->fetchAll(PDO::FETCH_ASSOC);
}

function handle(PDO $db, array $job): void              // the work: committed with the ack, or not at all
{
    call($db, 'INSERT INTO sent (job_id, address) VALUES (?, ?)', [$job['job_id'], json_decode($job['payload'])->to]);
}

function heartbeat($jobs): void                         // well within the queue's lease_time, as long as there is a worker
{
    pcntl_signal(SIGTERM, SIG_IGN);
    [$db, $held] = [null, []];
    while (!feof($jobs)) {
        [$read, $none] = [[$jobs], null];
        if (stream_select($read, $none, $none, 3)) {
            $held = json_decode(fgets($jobs) ?: '[]', true);
            continue;
        }
        try {
            $db ??= connect();
            foreach ($held as $job) call($db, 'SELECT pgq_extend(?, ?)', [$job['job_id'], $job['lease']]);
        } catch (PDOException) {
            $db = null;
        }
    }
}

function work(PDO $db, array $job): void
{
    $ticket = [$job['job_id'], $job['lease']];
    try {
        $db->beginTransaction();
        handle($db, $job);
        call($db, 'SELECT pgq_ack(?, ?)', $ticket);
        $db->commit();
    } catch (Throwable $error) {                        // tried again after the queue's backoff
        if ($db->inTransaction()) $db->rollBack();
        call($db, 'SELECT pgq_fail(?, ?, error => ?)', [...$ticket, $error->getMessage()]);
    }
}

connect();                                              // what is wrong from the start is an error

// PHP has one thread, which a query occupies: the heartbeat is a process of its own, and is told of the jobs claimed last.
[$to, $from] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
if (pcntl_fork() === 0) {
    fclose($to);
    exit(heartbeat($from));
}
fclose($from);

$db = null;
while (!$stopping) {
    try {
        $db ??= connect();                              // whoever is the primary: what was in hand comes again
        $held = call($db, "SELECT job_id, lease, payload FROM pgq_claim('mail', 5, wait => '5 s')");
        fwrite($to, json_encode($held) . "\n");
        foreach ($held as $job) {
            if ($stopping) call($db, 'SELECT pgq_release(?, ?)', [$job['job_id'], $job['lease']]);
            else work($db, $job);
        }
        fwrite($to, "[]\n");
    } catch (PDOException $error) {
        fwrite($to, "[]\n");                            // somebody else gets what was in hand
        fwrite(STDERR, $error->getMessage() . "\n");
        $db = null;
        sleep(1);
    }
}
