INSERT INTO incoming
SELECT jsonb_build_object('body', encode(convert_to(format('[[%s], {"to": "%s"}, {"callbacks": null}]', i, who), 'UTF8'), 'base64'), 'content-encoding', 'utf-8',
	'headers', jsonb_build_object('task', 'mail.send', 'id', 'task-' || i, 'eta', eta, 'retries', 0), 'properties', jsonb_build_object('priority', priority))
FROM (VALUES (1, 'plain', 0, NULL), (2, 'urgent', -7, NULL), (3, 'later', 0, to_char(now() AT TIME ZONE 'UTC' + interval '1 h', 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"'))) AS t (i, who, priority, eta);
