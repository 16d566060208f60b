-- The extension is there, keeps its objects to two schemas, and offers nothing to PUBLIC but what the views ask about their reader.
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

SELECT object FROM member m JOIN pg_proc p ON (m.classid, m.objid) = ('pg_proc'::regclass, p.oid)
WHERE proacl IS NULL OR EXISTS (SELECT FROM aclexplode(proacl) WHERE grantee = 0);
