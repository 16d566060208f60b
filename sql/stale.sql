-- What every verb answers to a lease or token that is stale: the table in docs/reference.md, row by row.
SELECT pgq_create_queue('q', lease_time => '1 h'), pgq_create_queue('next');
SELECT pgq_enqueue('q', '1') AS job \gset
SELECT pgq_enqueue('next', '1') > 0 AS enqueued;
-- The lease of somebody who gave the job back; another worker has it.
SELECT lease AS stale FROM pgq_claim('q') \gset
SELECT pgq_release(:job, :stale);
SELECT lease AS current FROM pgq_claim('q') \gset
-- The token of a lock that was given back, and is held by somebody else; the same of a run.
SELECT pgq_lock('l') AS stale_lock \gset
SELECT pgq_unlock('l', :stale_lock);
SELECT pgq_lock('l', ttl => '1 h') AS lock \gset
SELECT pgq_run_once('r') AS stale_run \gset
SELECT pgq_unlock('r', :stale_run);
SELECT pgq_run_once('r', ttl => '1 h') AS run \gset

CREATE TEMP TABLE verb (n serial, verb text, call text);
INSERT INTO verb (verb, call) VALUES
('pgq_ack', 'pgq_ack(%s, %s)'),
('pgq_ack_many', $$ARRAY(SELECT pgq_ack_many('{%s}', '{%s}'))$$),
('pgq_ack_claim', $$ARRAY(SELECT queue FROM pgq_ack_claim('{%s}', '{%s}', 'next'))$$),
('pgq_ack_next', $$ARRAY(SELECT queue FROM pgq_ack_next(%s, %s, 'next'))$$),
('pgq_fail', 'pgq_fail(%s, %s)'),
('pgq_release', 'pgq_release(%s, %s)'),
('pgq_extend', 'pgq_extend(%s, %s)'),
('pgq_assert_lease', 'pgq_assert_lease(%s, %s)'),
('pgq_progress', $$pgq_progress(%s, %s, '1')$$),
('pgq_checkpoint', $$pgq_checkpoint(%s, %s, 'step', '1')$$),
('pgq_parents', $$pgq_parents(%s, %s)$$),
('pgq_extend_lock', 'pgq_extend_lock(%L, %s)'),
('pgq_unlock', 'pgq_unlock(%L, %s)'),
('pgq_assert_lock', 'pgq_assert_lock(%L, %s)'),
('pgq_run_done', 'pgq_run_done(%L, %s)');
CREATE FUNCTION pg_temp.answer(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE 'SELECT ' || call INTO answer;
    RETURN COALESCE(answer, 'NULL');
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END $$;
SELECT verb, pg_temp.answer(format(call, :job, :stale)) AS stale, pg_temp.answer(format(call, :job, 1)) AS made_up,
       pg_temp.answer(format(call, -1, :current)) AS no_such_job
FROM verb WHERE verb !~ 'lock|run' ORDER BY n;
SELECT verb, pg_temp.answer(format(call, 'l', :stale_lock)) AS lock, pg_temp.answer(format(call, 'r', :stale_run)) AS run,
       pg_temp.answer(format(call, 'l', 1)) AS made_up, pg_temp.answer(format(call, 'nothing', :lock)) AS no_such_name
FROM verb WHERE verb ~ 'lock|run' ORDER BY n;
-- In a transaction block all that is not an error leaves the transaction as it is.
BEGIN;
SELECT pgq_fail(:job, :stale), pgq_release(:job, :stale), pgq_extend(:job, :stale), pgq_extend_lock('l', :stale_lock), pgq_unlock('l', :stale_lock);
SELECT count(*) FROM pgq_ack_many(ARRAY[:job], ARRAY[:stale]);
COMMIT;
-- Nothing was changed.
SELECT lease = :current AS same_lease, attempt, lease_expires_at > clock_timestamp() + '59 min' AS same_end FROM pgq_ext.lease;
SELECT queue, state, attempts, last_error, progress FROM pgq_ext.job_status ORDER BY job_id;
SELECT name, token = :lock AS same_token, expires_at > clock_timestamp() + '59 min' AS same_end FROM pgq_ext.lock;
SELECT token = :run AS same_token, finished_at FROM pgq_ext.run;
-- These are all that take a lease or token.
SELECT proname FROM pg_proc WHERE proname LIKE 'pgq\_%' AND proargnames && '{lease,leases,token}' AND pronamespace = 'public'::regnamespace
EXCEPT SELECT verb FROM verb;

-- A lease that was lost is stale, too, but pgq_fail answers once for the attempt.
SELECT pgq_release(:job, :current);
BEGIN;
SELECT lease AS lost FROM pgq_claim('q') \gset
ROLLBACK;
SELECT pg_temp.answer(format('pgq_ack(%s, %s)', :job, :lost)) AS ack;
SELECT pgq_fail(:job, :lost, 'why', retry_in => '1 h'), pgq_fail(:job, :lost, 'why', retry_in => '1 h');
SELECT attempts, last_error FROM pgq_ext.job_status WHERE queue = 'q';
SELECT pgq_unlock('l', :lock), pgq_unlock('r', :run);
DELETE FROM pgq_ext.run;
SELECT * FROM pgq_check();
SELECT pgq_drop_queue('q', force => true), pgq_drop_queue('next', force => true);
