-- Named locks: one holder a slot, tokens that grow, all of it undone with its transaction.
CREATE TABLE got (who text, token bigint);
CREATE FUNCTION token(text) RETURNS bigint LANGUAGE sql AS 'SELECT max(token) FROM got WHERE who = $1';
CREATE FUNCTION held(text) RETURNS TABLE (slot int, slots int, token_is text, owner text, by_me boolean, left_s int, bound boolean, waiting int, open boolean)
LANGUAGE sql AS $$
SELECT slot, slots, (SELECT max(who) FROM got WHERE got.token = l.token), owner, pid = pg_backend_pid(),
       5 * ceil(extract(epoch FROM expires_at - clock_timestamp()) / 5)::int, session_bound, waiting, in_transaction
FROM pgq_ext.lock l WHERE name = $1 ORDER BY slot $$;

-- A mutex.
INSERT INTO got SELECT 'a', pgq_lock('m', owner => 'Anne');
SELECT pgq_lock('m') IS NULL AS busy;
SELECT * FROM held('m');
SELECT pgq_assert_lock('m', token('a'));
SELECT pgq_extend_lock('m', token('a'), '1 hour') - clock_timestamp() BETWEEN '59 min 55 s' AND '1 hour' AS extended;
SELECT pgq_extend_lock('m', token('a'), '1 s') - clock_timestamp() > '59 min' AS never_shorter;
SELECT left_s > 3500 AS longer FROM held('m');
SELECT pgq_unlock('m', token('a') + 1) AS stale, pgq_unlock('n', token('a')) AS another, pgq_unlock('m', token('a')) AS ours, pgq_unlock('m', token('a')) AS again;
SELECT count(*) FROM pgq_ext.held_lock;
INSERT INTO got SELECT 'b', pgq_lock('m');
SELECT token('b') > token('a') AS grows;
\set VERBOSITY sqlstate
SELECT pgq_assert_lock('m', token('a'));
\set VERBOSITY default
SELECT pgq_extend_lock('m', token('a')) IS NULL AS stale;

-- What is not committed has not happened: a rollback, a savepoint, and again within one transaction.
BEGIN;
SELECT pgq_unlock('m', token('b'));
SELECT pgq_lock('m') > token('b') AS taken_again;
SELECT pgq_lock('m') IS NULL AS but_not_twice;
ROLLBACK;
SELECT token_is, open FROM held('m');
BEGIN;
SAVEPOINT s;
SELECT pgq_unlock('m', token('b'));
SELECT pgq_unlock('m', token('b')) AS twice;
SELECT pgq_lock('other') IS NOT NULL AS other;
SAVEPOINT t;
SELECT pgq_lock('third') IS NOT NULL AS third;
RELEASE t;
ROLLBACK TO s;
SELECT name, in_transaction FROM pgq_ext.lock ORDER BY name;
SELECT pgq_lock('fourth') IS NOT NULL AS fourth;
COMMIT;
SELECT name, in_transaction FROM pgq_ext.lock ORDER BY name;
SELECT name FROM pgq_ext.held_lock ORDER BY name;
SELECT pgq_unlock(name, token) FROM pgq_ext.lock;
BEGIN;
INSERT INTO got SELECT 'c', pgq_lock('m');
SELECT pgq_assert_lock('m', token('c')), pgq_extend_lock('m', token('c'), '1 day') > now() AS extended, pgq_unlock('m', token('c'));
INSERT INTO got SELECT 'd', pgq_lock('m');
COMMIT;
SELECT token_is FROM held('m');
SELECT pgq_unlock('m', token('d'));

-- In one statement.
WITH l AS MATERIALIZED (SELECT pgq_lock('one') AS token) SELECT pgq_extend_lock('one', token) > now() AS extended, pgq_unlock('one', token) FROM l;

-- Slots.
INSERT INTO got SELECT 's' || n, pgq_lock('sem', slots => 3) FROM generate_series(1, 3) n;
SELECT pgq_lock('sem', slots => 3) IS NULL AS full, pgq_lock('sem', slots => 2) IS NULL AS fewer;
SELECT pgq_unlock('sem', token('s2'));
SELECT pgq_lock('sem', slots => 2) IS NULL AS two_are_held;
INSERT INTO got SELECT 's4', pgq_lock('sem', slots => 4);
INSERT INTO got SELECT 's5', pgq_lock('sem', slots => 4);
SELECT slot, slots, token_is FROM held('sem');
SELECT pgq_lock('sem', slots => 1) IS NULL AS not_beside_others;
SELECT pgq_unlock('sem', token('s' || n)) FROM generate_series(1, 5) n;

-- For a time.
INSERT INTO got SELECT 'short', pgq_lock('t', ttl => '1 s');
SELECT pgq_lock('t', wait => '5 s') > token('short') AS its_time_was_over;
SELECT pgq_extend_lock('t', token('short')) IS NULL AS stale;
SELECT pgq_unlock(name, token) FROM pgq_ext.lock WHERE name = 't';
-- An open transaction keeps it beyond that.
BEGIN;
INSERT INTO got SELECT 'short', pgq_lock('t', ttl => '1 s');
SELECT pg_sleep(1.1);
SELECT pgq_assert_lock('t', token('short'));
COMMIT;
\set VERBOSITY sqlstate
SELECT pgq_assert_lock('t', token('short'));
\set VERBOSITY default

-- As long as the session lives; nothing is written.
INSERT INTO got SELECT 'bound', pgq_lock('leader', session_bound => true, ttl => '1 day', owner => repeat('o', 100));
SELECT slot, token_is, length(owner) AS owner, by_me, bound FROM held('leader');
SELECT count(*) FROM pgq_ext.held_lock WHERE name = 'leader';
SELECT pgq_lock('leader', wait => '60 s') IS NULL AS own_lock_is_not_waited_for;
BEGIN;
SELECT pgq_unlock('leader', token('bound'));
ROLLBACK;
BEGIN;
SELECT pgq_assert_lock('leader', token('bound'));
PREPARE TRANSACTION 'asserted';
\set SHOW_CONTEXT never
SELECT pgq_unlock('leader', token('bound')) FROM (SELECT set_config('lock_timeout', '100 ms', true)) s;
\set SHOW_CONTEXT errors
COMMIT PREPARED 'asserted';
BEGIN;
SELECT pgq_unlock('leader', token('bound'));
PREPARE TRANSACTION 'no';
SELECT pgq_extend_lock('leader', token('bound'), '2 days') - clock_timestamp() > '1 day 23:59' AS extended;
DISCARD ALL;
SELECT pgq_lock('leader', session_bound => true) > token('bound') AS next_leader;
-- A lock with a row whose time is over gives way to one without.
INSERT INTO got SELECT 'short', pgq_lock('t', ttl => '1 s', wait => '5 s');
SELECT pgq_lock('t', wait => '5 s', session_bound => true) > token('short') AS taken;
SELECT count(*) FROM pgq_ext.held_lock WHERE name = 't';
DISCARD ALL;

-- Other sessions and isolation levels.
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT 1;
INSERT INTO got SELECT 'ser', pgq_lock('m');
SELECT pgq_extend_lock('m', token('ser')) IS NOT NULL AS extended;
SELECT pgq_unlock('m', token('ser'));
COMMIT;
BEGIN READ ONLY;
SELECT pgq_lock('m');
ROLLBACK;

DROP FUNCTION held, token;
DROP TABLE got;
