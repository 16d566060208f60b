INSERT INTO river_job (kind, args, state, priority, scheduled_at, attempt, max_attempts, finalized_at) VALUES
	('send', '{"to": "plain"}', 'available', 2, now(), 0, 5, NULL), ('send', '{"to": "urgent"}', 'available', 1, now(), 0, 5, NULL),
	('send', '{"to": "later"}', 'scheduled', 2, now() + interval '1 h', 0, 5, NULL), ('send', '{"to": "again"}', 'retryable', 2, now(), 2, 5, NULL),
	('send', '{"to": "busy"}', 'running', 1, now(), 1, 5, NULL), ('send', '{"to": "done"}', 'completed', 1, now(), 1, 5, now());
