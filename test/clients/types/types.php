<?php
$db = new PDO('pgsql:');

function rows(string $sql, ...$values): array
{
    global $db;
    $statement = $db->prepare($sql);
    $statement->execute($values);
    return $statement->fetchAll(PDO::FETCH_NUM);
}

function tell(string $what, string $sql, ...$values): void
{
    try {
        echo "$what: " . rows($sql, ...$values)[0][0] . "\n";
    } catch (PDOException $error) {
        echo "$what: {$error->errorInfo[0]}\n";
    }
}

tell('id', 'SELECT pgq_enqueue(?, ?)', 'mail', json_encode(['to' => 'ada']));
tell('NULL for all that may be', 'SELECT (pgq_enqueue(?, ?, delay => ?, headers => ?, max_attempts => ?) > 0)::text', 'mail', json_encode([]), null, null, null);
tell('NULL as JSON', 'SELECT (pgq_enqueue(?, ?) > 0)::text', 'mail', json_encode(null));
tell('NULL payload', 'SELECT pgq_enqueue(?, ?)', 'mail', null);
tell('interval', "SELECT (pgq_enqueue('mail', '1', delay => ?) > 0)::text", '1 h');
tell('NULL arrays', 'SELECT count(*) FROM pgq_ack_many(?, ?)', null, null);
tell('one NULL array', 'SELECT count(*) FROM pgq_ack_many(?, ?)', '{}', null);
tell('empty arrays', 'SELECT count(*) FROM pgq_ack_many(?, ?)', '{}', '{}');
[$id, $lease, $payload] = rows('SELECT job_id, lease, payload FROM pgq_ack_claim(?, ?, ?)', '{}', '{}', 'mail')[0];
echo 'payload: ' . gettype($payload) . "\n";
echo 'ids: ' . gettype($id) . ' ' . gettype($lease) . "\n";
tell('arrays', "SELECT payload::text FROM pgq_ack_claim(?, ?, 'mail')", '{' . $id . '}', '{' . $lease . '}');
tell('no queues', "SELECT count(*) FROM pgq_claim_any(?, wait => '1 ms')", '{}');
[$id, $lease] = rows('SELECT job_id, lease FROM pgq_claim_any(?)', '{other,mail}')[0];
tell('why NULL', 'SELECT pgq_fail(?, ?, error => ?, retry_in => ?)', $id, $lease, null, null);
rows('SELECT pgq_enqueue(?, ?)', 'other', '1');
[$id, $lease] = rows("SELECT job_id, lease FROM pgq_claim('other')")[0];
tell('false in the array of execute', 'SELECT pgq_fail(?, ?, retry => ?)', $id, $lease, false);
$statement = $db->prepare('SELECT pgq_fail(?, ?, retry => ?)');
foreach ([$id, $lease] as $i => $value) $statement->bindValue($i + 1, $value);
$statement->bindValue(3, false, PDO::PARAM_BOOL);
$statement->execute();
echo "false: {$statement->fetchColumn()}\n";
