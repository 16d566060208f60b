require 'json'
require 'pg'

$db = PG.connect
ARRAY = PG::TextEncoder::Array.new
NONE = ARRAY.encode([])

def rows(sql, *values) = $db.exec_params(sql, values).values

def tell(what, sql, *values)
  puts "#{what}: #{rows(sql, *values)[0][0]}"
rescue PG::Error => e
  puts "#{what}: #{e.result.error_field(PG::PG_DIAG_SQLSTATE)}"
end

tell('id', 'SELECT pgq_enqueue($1, $2)', 'mail', JSON.dump({ to: 'ada' }))
tell('NULL for all that may be', 'SELECT (pgq_enqueue($1, $2, delay => $3, headers => $4, max_attempts => $5) > 0)::text', 'mail', JSON.dump([]), nil, nil, nil)
tell('NULL as JSON', 'SELECT (pgq_enqueue($1, $2) > 0)::text', 'mail', JSON.dump(nil))
tell('NULL payload', 'SELECT pgq_enqueue($1, $2)', 'mail', nil)
tell('interval', "SELECT (pgq_enqueue('mail', '1', delay => $1) > 0)::text", '1 h')
tell('NULL arrays', 'SELECT count(*) FROM pgq_ack_many($1, $2)', nil, nil)
tell('one NULL array', 'SELECT count(*) FROM pgq_ack_many($1, $2)', NONE, nil)
tell('empty arrays', 'SELECT count(*) FROM pgq_ack_many($1, $2)', NONE, NONE)
tell('an array without an encoder', 'SELECT count(*) FROM pgq_ack_many($1, $2)', [], [])
id, lease, payload = rows('SELECT job_id, lease, payload FROM pgq_ack_claim($1, $2, $3)', NONE, NONE, 'mail')[0]
puts "payload: #{payload.class}"
tell('arrays', "SELECT payload::text FROM pgq_ack_claim($1, $2, 'mail')", ARRAY.encode([id]), ARRAY.encode([lease]))
tell('no queues', "SELECT count(*) FROM pgq_claim_any($1, wait => '1 ms')", NONE)
id, lease = rows('SELECT job_id, lease FROM pgq_claim_any($1)', ARRAY.encode(%w[other mail]))[0]
tell('why NULL', 'SELECT pgq_fail($1, $2, error => $3, retry_in => $4)', id, lease, nil, nil)
rows('SELECT pgq_enqueue($1, $2)', 'other', '1')
id, lease = rows("SELECT job_id, lease FROM pgq_claim('other')")[0]
tell('false', 'SELECT pgq_fail($1, $2, retry => $3)', id.to_i, lease.to_i, false)
