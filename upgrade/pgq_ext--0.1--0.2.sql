-- What 0.2 has beyond 0.1: the same statements as in src/schema, in their order.

\echo Use "ALTER EXTENSION pgq_ext UPDATE" to load this file. \quit

-- Where it is published, as by FOR ALL TABLES, rows are deleted all the same.
ALTER TABLE pgq_ext.unique_key REPLICA IDENTITY FULL;

-- Where it is published, as by FOR ALL TABLES, rows are changed all the same. No index can say which: there are NULLs.
ALTER TABLE pgq_ext.run REPLICA IDENTITY FULL;
