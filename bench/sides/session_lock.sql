-- claim
SELECT 'lock:' || pg_backend_pid(), pgq_lock('lock:' || pg_backend_pid(), session_bound => true, ttl => '1 hour');

-- ack
SELECT pgq_unlock($1, $2);

-- lead
SELECT pgq_lock('leader', session_bound => true, ttl => '1 hour');

-- follow
SELECT pgq_lock('leader', session_bound => true, ttl => '1 hour', wait => '60 s');

-- in_line
SELECT waiting = 1 FROM pgq_ext.lock WHERE name = 'leader';

-- give_back
SELECT pgq_unlock('leader', $1);

-- attach
SELECT pgq_lock('attached:' || pg_backend_pid(), session_bound => true, ttl => '1 hour');
