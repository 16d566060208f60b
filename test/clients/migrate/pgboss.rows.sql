INSERT INTO pgboss.job (name, data, state, priority, start_after, retry_count, retry_limit, created_on) VALUES
	('mail', '{"to": "plain"}', 'created', 0, now(), 0, 4, now() - interval '4 min'), ('mail', '{"to": "urgent"}', 'created', 7, now(), 0, 4, now() - interval '3 min'),
	('mail', '{"to": "later"}', 'created', 0, now() + interval '1 h', 0, 4, now() - interval '2 min'),
	('mail', '{"to": "again"}', 'retry', 0, now(), 2, 4, now() - interval '1 min'),
	('mail', '{"to": "busy"}', 'active', 0, now(), 1, 4, now()), ('mail', '{"to": "done"}', 'completed', 0, now(), 1, 4, now());
