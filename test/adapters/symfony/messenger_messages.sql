-- A table of messages as Symfony's tests for Doctrine write it: rows are jobs. A row that was delivered less than an hour ago
-- is a job that a worker has.
SELECT pgq_create_queue('default');
CREATE VIEW messenger_messages AS
	SELECT payload #>> '{}' AS body, headers::text AS headers, 'default'::text AS queue_name, enqueued_at AS created_at,
		run_at AS available_at, NULL::timestamptz AS delivered_at
	FROM pgq_ext.job;
CREATE FUNCTION insert_message() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pgq_enqueue(new.queue_name, to_jsonb(new.body), headers => new.headers::jsonb, run_at => new.available_at,
		priority => CASE WHEN new.delivered_at > now() - interval '1 h' THEN 1 ELSE 0 END);
	RETURN new;
END $$;
CREATE TRIGGER insert_message INSTEAD OF INSERT ON messenger_messages FOR EACH ROW EXECUTE FUNCTION insert_message();
