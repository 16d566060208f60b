-- claim
SELECT pg_backend_pid(), pg_try_advisory_lock(pg_backend_pid());

-- ack
SELECT pg_advisory_unlock($1);

-- lead
SELECT 1 WHERE pg_try_advisory_lock(0);

-- follow
SELECT pg_advisory_lock(0), 0;

-- in_line
SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted;

-- give_back
SELECT pg_advisory_unlock(0 * length($1));

-- attach
SELECT pg_advisory_lock(pg_backend_pid());
