-- The extension is there, and keeps its objects to two schemas. What it offers to whom: readers.sql.
SELECT extname, extversion = default_version AS newest FROM pg_extension JOIN pg_available_extensions ON name = extname WHERE extname = 'pgq_ext';

CREATE TEMP VIEW member AS
SELECT pg_describe_object(classid, objid, 0) AS object, classid, objid
FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
  AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgq_ext');

SELECT object FROM member m JOIN pg_class c ON (m.classid, m.objid) = ('pg_class'::regclass, c.oid)
WHERE relnamespace <> 'pgq_ext'::regnamespace;

SELECT object FROM member m JOIN pg_proc p ON (m.classid, m.objid) = ('pg_proc'::regclass, p.oid)
WHERE pronamespace NOT IN ('public'::regnamespace, 'pgq_ext'::regnamespace);
