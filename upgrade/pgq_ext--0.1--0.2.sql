-- What 0.2 has beyond 0.1: the same statements as in src/schema, in their order.

\echo Use "ALTER EXTENSION pgq_ext UPDATE" to load this file. \quit

-- ALTER TABLE ... REPLICA IDENTITY FULL of src/schema, without its lock, for which who works would wait until this is committed.
UPDATE pg_catalog.pg_class SET relreplident = 'f'
WHERE oid OPERATOR(pg_catalog.=) 'pgq_ext.unique_key'::pg_catalog.regclass OR oid OPERATOR(pg_catalog.=) 'pgq_ext.run'::pg_catalog.regclass;
-- Segments that are there already get what create_segments() gives to new ones.
DO $$
DECLARE
    segment pg_catalog.regclass;
BEGIN
    FOR segment IN SELECT i.inhrelid FROM pg_catalog.pg_inherits i
                   WHERE i.inhparent IN ('pgq_ext.job'::pg_catalog.regclass, 'pgq_ext.dead_job'::pg_catalog.regclass)
    LOOP
        EXECUTE pg_catalog.format('ALTER TABLE %s SET (autovacuum_vacuum_threshold = 1000000,
            autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 1000000,
            toast.autovacuum_vacuum_threshold = 1000000, toast.autovacuum_vacuum_insert_threshold = -1)', segment);
    END LOOP;
END $$;
