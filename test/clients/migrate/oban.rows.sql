INSERT INTO oban_jobs (worker, args, state, priority, scheduled_at, attempt, max_attempts) VALUES
	('Send', '{"to": "plain"}', 'available', 1, timezone('UTC', now()), 0, 5), ('Send', '{"to": "urgent"}', 'available', 0, timezone('UTC', now()), 0, 5),
	('Send', '{"to": "later"}', 'scheduled', 1, timezone('UTC', now()) + interval '1 h', 0, 5),
	('Send', '{"to": "again"}', 'retryable', 1, timezone('UTC', now()), 2, 5),
	('Send', '{"to": "busy"}', 'executing', 0, timezone('UTC', now()), 1, 5), ('Send', '{"to": "done"}', 'completed', 0, timezone('UTC', now()), 1, 5);
