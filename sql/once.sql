-- Runs: what is done once for ever, or once in a period; and rates.
CREATE TABLE got (who text, token bigint);
CREATE FUNCTION token(text) RETURNS bigint LANGUAGE sql AS 'SELECT max(token) FROM got WHERE who = $1';

-- Once for ever.
INSERT INTO got SELECT 'a', pgq_run_once('migrate', owner => 'Anne');
SELECT pgq_run_once('migrate') IS NULL AS being_done;
SELECT pgq_run_done('migrate', token('a'), '{"rows": 7}');
SELECT pgq_run_once('migrate') IS NULL AS done, pgq_run_once('migrate', wait => '60 s') IS NULL AS not_waited_for;
SELECT name, period, period_start, token = token('a') AS token, owner, finished_at >= started_at AS finished, result, tries FROM pgq_ext.run;
SELECT count(*) FROM pgq_ext.held_lock WHERE name = 'migrate';
SELECT count(*) FROM pgq_ext.lock WHERE name = 'migrate';

-- A transaction for all of it: undone, it is free at once, and nobody has tried.
BEGIN;
SELECT pgq_run_done('b', pgq_run_once('b'));
ROLLBACK;
SELECT count(*) FROM pgq_ext.run WHERE name = 'b';
BEGIN;
SELECT pgq_run_done('b', pgq_run_once('b'));
SELECT pgq_run_once('b') IS NULL AS done;
COMMIT;
SELECT pgq_run_once('b') IS NULL AS done;

-- Given up, lost, tried again; the token proves who it is that has done it.
INSERT INTO got SELECT 'c1', pgq_run_once('c', '1 day');
SELECT pgq_unlock('c', token('c1')) AS given_up;
INSERT INTO got SELECT 'c2', pgq_run_once('c', '24 hours', ttl => '1 s');
INSERT INTO got SELECT 'c3', pgq_run_once('c', '1 day', wait => '10 s');
SELECT pgq_extend_lock('c', token('c3'), '1 hour') > now() AS extended, pgq_assert_lock('c', token('c3'));
\set VERBOSITY sqlstate
SELECT pgq_run_done('c', token('c2'));
BEGIN;
SELECT pgq_run_done('c', token('c3'));
ROLLBACK;
SELECT pgq_run_once('c', '1 day') IS NULL AS still_being_done;
SELECT pgq_run_done('c', token('c3'), '"third"');
SELECT pgq_run_done('c', token('c3'));
\set VERBOSITY default
SELECT name, period, period_start = date_bin('1 day', started_at, '2000-01-01 UTC') AS bucket, result, tries FROM pgq_ext.run WHERE name = 'c';
SELECT pgq_run_once('c', '1 day') IS NULL AS done, pgq_run_once('c', '12 hours') IS NOT NULL AS another_period, pgq_run_once('c') IS NOT NULL AS for_ever;

-- A period of its own for each bucket.
INSERT INTO got SELECT 'd', pgq_run_once('d', '1 s');
SELECT pgq_run_done('d', token('d'));
SELECT pg_sleep(1.1);
SELECT pgq_run_done('d', pgq_run_once('d', '1 s'));
SELECT count(*) FROM pgq_ext.run WHERE name = 'd';
-- Of those that are finished some are remembered.
SHOW pgq_ext.keep_runs;
ALTER SYSTEM SET pgq_ext.keep_runs = 1;
SELECT pg_reload_conf();
SELECT pg_sleep(1.1);
SELECT pgq_run_done('d', pgq_run_once('d', '1 s'));
SELECT count(*) FROM pgq_ext.run WHERE name = 'd';
-- Of those that nobody has finished, too; but not one that is held.
SELECT pgq_unlock('u', pgq_run_once('u', '1 s'));
SELECT pg_sleep(1.1);
SELECT pgq_run_once('u', '1 s', ttl => '1 h') IS NOT NULL AS held;
SELECT count(*) FROM pgq_ext.run WHERE name = 'u';
SELECT pg_sleep(1.1);
SELECT pgq_unlock('u', pgq_run_once('u', '1 s'));
SELECT count(*) FROM pgq_ext.run WHERE name = 'u';
SELECT pg_sleep(1.1);
SELECT pgq_unlock('u', pgq_run_once('u', '1 s'));
SELECT count(*) FROM pgq_ext.run WHERE name = 'u';
ALTER SYSTEM RESET pgq_ext.keep_runs;
SELECT pg_reload_conf();

-- A lock is no run, and the other way round.
INSERT INTO got SELECT 'l', pgq_lock('c');
\set VERBOSITY sqlstate
SELECT pgq_run_done('c', token('l'));
\set VERBOSITY default
SELECT pgq_unlock('c', token('l'));

-- The latest state counts, whatever the snapshot.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT pgq_run_once('b') IS NULL AS done, pgq_run_once('e') IS NOT NULL AS ours;
COMMIT;

-- Rates: the bucket is empty at first, and gives one after the other.
SELECT pgq_create_rate('api', 1, '3 s');
SELECT pgq_create_rate('api', 20, '1 s', if_not_exists => true);
SELECT pgq_create_rate('api', 1, '3 s');
SELECT name, permits, period, burst, available FROM pgq_ext.rate;
SELECT pgq_create_rate('hourly', 1, '1 hour');
SELECT pgq_take('hourly') AS empty_at_first;
SELECT available, next_at > clock_timestamp() AS soon FROM pgq_ext.rate WHERE name = 'hourly';
SELECT pgq_drop_rate('hourly');
SELECT pgq_take('api', wait => '10 s') AS in_time;
SELECT pgq_take('api') AS at_once;
SELECT pgq_take('api', 2);
SELECT clock_timestamp() AS began \gset
SELECT pgq_create_rate('fast', 10, '1 s');
SELECT count(*) FILTER (WHERE pgq_take('fast', wait => '5 s')) AS taken FROM generate_series(1, 11);
SELECT clock_timestamp() - :'began' > '1.05 s' AS takes_a_second;
SELECT pgq_drop_rate('fast');
-- Reserved is taken, also by who is rolled back.
BEGIN;
SELECT pgq_take('api', wait => '10 s');
ROLLBACK;
SELECT pgq_take('api') AS not_given_back;
-- All at once.
SELECT pgq_create_rate('burst', 5, '1 s', burst => 5);
SELECT pgq_take('burst', 5, '10 s'), pgq_take('burst') AS more;
BEGIN;
SELECT pgq_drop_rate('burst'), pgq_create_rate('burst', 100, '1 s', 2);
SELECT pgq_take('burst', 3);
ROLLBACK;
SELECT pgq_take('burst', 3, '10 s');
-- What a prepared transaction has made of it memory would not hear of.
BEGIN;
SELECT pgq_drop_rate('burst');
PREPARE TRANSACTION 'no';
BEGIN;
SAVEPOINT s;
SELECT pgq_drop_rate('burst');
ROLLBACK TO s;
SELECT pgq_take('burst', 3, '10 s');
PREPARE TRANSACTION 'taken';
ROLLBACK PREPARED 'taken';
SELECT pgq_drop_rate('burst'), pgq_drop_rate('burst', if_exists => true);
SELECT pgq_take('burst');
SELECT pgq_drop_rate('burst');
BEGIN;
SELECT pgq_create_rate('undone', 1, '1 s');
SELECT pgq_take('undone');
ROLLBACK;
SELECT pgq_take('undone');
SELECT pgq_drop_rate('api');
SELECT pgq_unlock(name, token) FROM pgq_ext.run WHERE finished_at IS NULL ORDER BY token;
DELETE FROM pgq_ext.run;
DROP FUNCTION token;
DROP TABLE got;
