-- What holds for every function that users call.
BEGIN;
SELECT plan(5);

CREATE TEMP VIEW api AS
SELECT p.*
FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgq_ext') AND proname LIKE 'pgq\_%';

SELECT isnt_empty('SELECT proname FROM api', 'there are functions');
SELECT is_empty($$SELECT proname FROM api WHERE obj_description(oid, 'pg_proc') IS NULL$$, 'each has a comment');
SELECT is_empty('SELECT proname FROM api GROUP BY 1 HAVING count(*) > 1', 'each has one signature');
SELECT is_empty('SELECT proname FROM api WHERE proisstrict', 'none hides NULL arguments');
SELECT is_empty($$SELECT proname FROM api WHERE has_function_privilege('pg_monitor', oid, 'EXECUTE')$$,
                'none can be executed before it is granted');

SELECT * FROM finish();
ROLLBACK;
