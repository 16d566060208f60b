INSERT INTO graphile_worker._private_tasks (identifier) VALUES ('send');
INSERT INTO graphile_worker._private_jobs (task_id, payload, priority, run_at, attempts, max_attempts, locked_at)
SELECT t.id, j.payload::json, j.priority, now() + late, attempts, 5, locked
FROM graphile_worker._private_tasks t, (VALUES ('{"to": "plain"}', 0, interval '0', 0, NULL::timestamptz), ('{"to": "urgent"}', -7, '0', 0, NULL),
	('{"to": "later"}', 0, '1 h', 0, NULL), ('{"to": "again"}', 0, '0', 2, NULL), ('{"to": "busy"}', 0, '0', 1, now()),
	('{"to": "done"}', 0, '0', 5, NULL)) AS j (payload, priority, late, attempts, locked);
