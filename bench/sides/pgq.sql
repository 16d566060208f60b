-- setup
SELECT pgq.create_queue(':queue');
SELECT pgq.set_queue_config(':queue', 'ticker_max_count', '100');
SELECT pgq.set_queue_config(':queue', 'ticker_max_lag', '10 milliseconds');
SELECT pgq.register_consumer(':queue', 'bench');
-- Return a batch that has events; a batch without events is finished at once.
CREATE FUNCTION claim_:queue() RETURNS TABLE (id bigint, batch bigint, data text) LANGUAGE plpgsql AS $$
BEGIN
	batch := pgq.next_batch(':queue', 'bench');
	IF batch IS NOT NULL THEN
		RETURN QUERY SELECT ev_id, batch, ev_data FROM pgq.get_batch_events(batch);
		IF NOT FOUND THEN
			PERFORM pgq.finish_batch(batch);
		END IF;
	END IF;
END $$;

-- fill
-- Make a tick after every hundred jobs.
DO $$ BEGIN
	SET synchronous_commit = off;
	FOR taken IN 0 .. :jobs - 1 BY 100 LOOP
		PERFORM pgq.insert_event(':queue', 'job', ':payload') FROM generate_series(1, least(100, :jobs - taken));
		COMMIT;
		PERFORM pgq.ticker(':queue');
		COMMIT;
	END LOOP;
END $$;

-- count
SELECT pgq.seq_getval(queue_event_seq) - CASE WHEN tick_id > 1 THEN tick_event_seq ELSE 0 END FROM pgq.queue
JOIN pgq.subscription ON sub_queue = queue_id JOIN pgq.tick ON tick_queue = queue_id AND tick_id = sub_last_tick
WHERE queue_name = ':queue';

-- vacuum
VACUUM ANALYZE pgq.tick, pgq.subscription;

-- enqueue
SELECT pgq.insert_event(':queue', 'job', $1);

-- enqueue_many
SELECT count(pgq.insert_event(':queue', 'job', job::text)) FROM unnest($1::jsonb[]) AS job;

-- claim
SELECT id, batch, data FROM claim_:queue();

-- claim_many
SELECT id, batch, data FROM claim_:queue();

-- ack
SELECT pgq.finish_batch($2) WHERE $1::bigint IS NOT NULL;

-- ack_many
SELECT pgq.finish_batch(($2::bigint[])[1]) WHERE $1::bigint[] IS NOT NULL;
