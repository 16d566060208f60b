-- setup
SELECT pgq_create_queue(':queue');
CREATE TABLE done_:queue (job_id bigint, sent jsonb, at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION handle_:queue(job pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO done_:queue (job_id) VALUES (job.job_id);
END $$;
CREATE FUNCTION handle_all_:queue(jobs pgq_ext.claimed_job[]) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO done_:queue (job_id) SELECT job_id FROM unnest(jobs);
END $$;
CREATE FUNCTION note_:queue(job pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO done_:queue (job_id, sent) VALUES (job.job_id, job.payload);
END $$;
CREATE ROLE worker_:queue LOGIN;
GRANT INSERT ON done_:queue TO worker_:queue;
GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO worker_:queue;

-- fill
SELECT count(pgq_enqueue(':queue', ':payload')) FROM generate_series(1, :jobs);

-- count
SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue AS q USING (queue_id) WHERE q.queue = ':queue';

-- vacuum
VACUUM ANALYZE pgq_ext.job;
