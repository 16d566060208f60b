INSERT INTO job (payload) VALUES ('{"to": "plain"}');
INSERT INTO job (payload, priority) VALUES ('{"to": "urgent"}', 7);
INSERT INTO job (payload, run_at) VALUES ('{"to": "later"}', now() + interval '1 h');
INSERT INTO job (payload, attempts) VALUES ('{"to": "again"}', 2);
INSERT INTO job (payload, attempts, status) VALUES ('{"to": "busy"}', 1, 'running'), ('{"to": "done"}', 1, 'done');
