INSERT INTO pgmq.q_mail (message, vt, read_ct, headers) VALUES ('{"to": "plain"}', now(), 0, '{"h": 1}'),
	('{"to": "later"}', now() + interval '1 h', 0, NULL), ('{"to": "again"}', now() - interval '1 min', 2, NULL),
	('{"to": "busy"}', now() + interval '1 min', 1, NULL);
