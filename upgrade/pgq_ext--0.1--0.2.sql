-- What 0.2 has beyond 0.1: the same statements as in src/schema, in their order.

\echo Use "ALTER EXTENSION pgq_ext UPDATE" to load this file. \quit

-- ALTER TABLE ... REPLICA IDENTITY FULL of src/schema, without its lock, for which who works would wait until this is committed.
UPDATE pg_catalog.pg_class SET relreplident = 'f'
WHERE oid OPERATOR(pg_catalog.=) 'pgq_ext.unique_key'::pg_catalog.regclass OR oid OPERATOR(pg_catalog.=) 'pgq_ext.run'::pg_catalog.regclass;
