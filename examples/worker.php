<?php
// A worker for the queue "mail". PGHOST, PGDATABASE and so on name the database. With a standby, set PGHOST=one,two and
// PGTARGETSESSIONATTRS=read-write: then the worker goes on after a failover. On SIGTERM the worker finishes the job that it is
// working on. If it has lost a job (the job took too long, or was cancelled), pgq_ack fails, which rolls the work back. Create
// the queue by SELECT pgq_create_queue('mail', lease_time => '1 min', max_runtime => '10 min'). The heartbeat extends the
// lease until max_runtime is over; then a job that hangs goes to another worker.
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

function storable(string $text): string                 // PostgreSQL stores valid UTF-8 without NUL
{
    return str_replace("\0", '?', json_decode(json_encode($text, JSON_INVALID_UTF8_SUBSTITUTE)));
}

function handle(PDO $db, array $job): void              // the work: committed with the ack, or not at all
{
    call($db, 'INSERT INTO sent (job_id, address) VALUES (?, ?)', [$job['job_id'], json_decode($job['payload'])->to]);
}

function heartbeat($leases): void                       // well within the queue's lease_time, as long as there is a worker
{
    pcntl_signal(SIGTERM, SIG_IGN);
    [$db, $held] = [null, null];
    while (!feof($leases)) {
        [$read, $none] = [[$leases], null];
        if (stream_select($read, $none, $none, 3)) {
            $held = json_decode(fgets($leases) ?: 'null');
            continue;
        }
        try {
            $db ??= connect();
            if ($held) call($db, 'SELECT pgq_extend(?, ?)', $held);
        } catch (PDOException) {
            $db = null;
        }
    }
}

function work(PDO $db, array $job, array $lease): void
{
    try {
        $db->beginTransaction();
        handle($db, $job);
        call($db, 'SELECT pgq_ack(?, ?)', $lease);
        $db->commit();
    } catch (Throwable $error) {                        // tried again after the queue's backoff
        if ($db->inTransaction()) $db->rollBack();
        call($db, 'SELECT pgq_fail(?, ?, error => ?)', [...$lease, storable($error->getMessage())]);
    }
}

connect();                                              // what is wrong from the start is an error

// PHP has one thread, which a query occupies: the heartbeat is a process of its own, and is told the lease in hand.
[$to, $from] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
if (pcntl_fork() === 0) {
    fclose($to);
    exit(heartbeat($from));
}
fclose($from);

$db = null;
while (!$stopping) {
    try {
        $db ??= connect();                              // connects again to the primary; the job in hand comes again
        $job = call($db, "SELECT job_id, lease, payload FROM pgq_claim('mail', wait => '5 s')")[0] ?? null;
        if (!$job) continue;
        $lease = [$job['job_id'], $job['lease']];
        fwrite($to, json_encode($lease) . "\n");
        if ($stopping) call($db, 'SELECT pgq_release(?, ?)', $lease);       // the job has not begun: it is given back
        else work($db, $job, $lease);
        fwrite($to, "null\n");
    } catch (PDOException $error) {
        fwrite($to, "null\n");                          // another worker gets the job in hand
        fwrite(STDERR, $error->getMessage() . "\n");
        $db = null;
        sleep(1);
    }
}
