-- Ids of new jobs come from one sequence, in the order of the array, also if many are drawn at once and whatever an
-- administrator has made of the sequence.
SELECT pgq_create_queue('ids');
SELECT pgq_enqueue('ids', '0') > 0 AS sequence_was_used;

\set VERBOSITY terse

-- Enqueues n jobs in one call. steps: the differences of ids that follow each other; first: the first id, after the last
-- value that the sequence had; is_last: the sequence, currval() and lastval() end with the last id.
CREATE FUNCTION pg_temp.enqueue(n int, keyed boolean = false, OUT jobs bigint, OUT steps bigint[], OUT first bigint, OUT is_last boolean, OUT logged_ahead boolean)
LANGUAGE plpgsql AS $$
DECLARE
    was bigint := (SELECT last_value FROM pgq_ext.job_id_seq);
    ids bigint[] := ARRAY(SELECT id FROM pgq_enqueue_many('ids', (
        SELECT jsonb_agg(jsonb_build_object('payload', i) || CASE WHEN keyed AND i % 3 = 0 THEN jsonb_build_object('unique_key', 'k' || i) ELSE '{}' END ORDER BY i)
        FROM generate_series(1, n) i)) WITH ORDINALITY AS e (id, i) ORDER BY i);
BEGIN
    IF ids <> ARRAY(SELECT job_id FROM pgq_ext.job WHERE job_id = ANY (ids) ORDER BY payload::int) THEN
        RAISE 'ids and jobs do not belong together';
    END IF;
    jobs := cardinality(ids);
    steps := ARRAY(SELECT DISTINCT ids[i] - ids[i - 1] FROM generate_series(2, n) i ORDER BY 1);
    first := ids[1] - was;
    is_last := currval('pgq_ext.job_id_seq') = ids[n] AND lastval() = ids[n];
    SELECT is_last AND last_value = ids[n], log_cnt BETWEEN 0 AND 32 INTO is_last, logged_ahead FROM pgq_ext.job_id_seq;
END $$;

SELECT n, e.* FROM unnest('{1,2,3,4,33,256,257,258,259,1000}'::int[]) n, pg_temp.enqueue(n) e;
SELECT * FROM pg_temp.enqueue(600, keyed => true);

-- A step of its own, as that of a shard; larger ones; the end of the range.
BEGIN;
ALTER SEQUENCE pgq_ext.job_id_seq INCREMENT BY 1024;
SELECT * FROM pg_temp.enqueue(300);
ALTER SEQUENCE pgq_ext.job_id_seq INCREMENT BY 1000000000000;
SELECT * FROM pg_temp.enqueue(300);
ALTER SEQUENCE pgq_ext.job_id_seq INCREMENT BY 4000000000000000 RESTART WITH 5000000000000;
SELECT * FROM pg_temp.enqueue(3);
ROLLBACK;

-- Descending, with a cache, without WAL: as by nextval().
BEGIN;
ALTER SEQUENCE pgq_ext.job_id_seq INCREMENT BY -1 RESTART WITH 1000000;
SELECT * FROM pg_temp.enqueue(300);
SELECT * FROM pg_temp.enqueue(300);
ROLLBACK;
BEGIN;
ALTER SEQUENCE pgq_ext.job_id_seq CACHE 10;
SELECT jobs, steps, first FROM pg_temp.enqueue(305);
SELECT jobs, steps, first FROM pg_temp.enqueue(300);
ALTER SEQUENCE pgq_ext.job_id_seq CACHE 1;
SELECT * FROM pg_temp.enqueue(300);
ROLLBACK;
BEGIN;
ALTER SEQUENCE pgq_ext.job_id_seq SET UNLOGGED;
SELECT * FROM pg_temp.enqueue(300);
ROLLBACK;

-- A sequence that was set, to a value that is still to come and to one that was drawn.
BEGIN;
ALTER SEQUENCE pgq_ext.job_id_seq RESTART WITH 2000000;
SELECT * FROM pg_temp.enqueue(300);
SELECT setval('pgq_ext.job_id_seq', 3000000, false);
SELECT * FROM pg_temp.enqueue(300);
SELECT setval('pgq_ext.job_id_seq', 4000000);
SELECT * FROM pg_temp.enqueue(300);
ROLLBACK;

-- The end of the sequence: the last value can be drawn, and no other; or it begins again.
BEGIN;
ALTER SEQUENCE pgq_ext.job_id_seq RESTART WITH 5000001 MAXVALUE 5000600;
SELECT * FROM pg_temp.enqueue(300);
SAVEPOINT full_soon;
SELECT * FROM pg_temp.enqueue(301);
ROLLBACK TO full_soon;
SELECT setval('pgq_ext.job_id_seq', 5000300);
SELECT * FROM pg_temp.enqueue(300);
SELECT * FROM pg_temp.enqueue(1);
ROLLBACK;
BEGIN;
ALTER SEQUENCE pgq_ext.job_id_seq START 4000001 RESTART WITH 5000001 MINVALUE 4000001 MAXVALUE 5000600 CYCLE;
SELECT jobs, first FROM pg_temp.enqueue(300);
SELECT jobs, steps, first FROM pg_temp.enqueue(500);
ROLLBACK;

-- Ids that were drawn in vain do not come again. The sequence stays locked to the end of the transaction.
BEGIN;
SAVEPOINT vain;
SELECT * FROM pg_temp.enqueue(300);
ROLLBACK TO vain;
SELECT mode FROM pg_locks WHERE relation = 'pgq_ext.job_id_seq'::regclass AND pid = pg_backend_pid() AND mode = 'RowExclusiveLock';
SELECT * FROM pg_temp.enqueue(300);
COMMIT;
SELECT count(*) = count(DISTINCT job_id) AS each_once FROM pgq_ext.job;
SELECT * FROM pgq_check();
SELECT pgq_drop_queue('ids', force => true);
