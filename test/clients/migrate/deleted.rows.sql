INSERT INTO job (payload, priority, run_at) VALUES ('{"to": "plain"}', 0, now()), ('{"to": "urgent"}', 7, now()),
	('{"to": "later"}', 0, now() + interval '1 h'), ('{"to": "busy"}', 0, now());
