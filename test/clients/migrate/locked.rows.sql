INSERT INTO job (payload) VALUES ('{"to": "plain"}');
INSERT INTO job (payload, priority) VALUES ('{"to": "urgent"}', 7);
INSERT INTO job (payload, run_at) VALUES ('{"to": "later"}', now() + interval '1 h');
INSERT INTO job (payload, attempts, locked_at, locked_by) VALUES ('{"to": "again"}', 2, now() - interval '1 h', 'one that died'),
	('{"to": "busy"}', 1, now(), 'worker');
