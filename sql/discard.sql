-- Another session may change a table while this one reads the catalog. Then the relation cache frees what it has of the table. A
-- server with assertions can do so at each read of the catalog, and overwrites the memory; other servers do nothing of the kind here.
SELECT pgq_create_queue('discard');
BEGIN;
ALTER TABLE pgq_ext.job_0 DISABLE TRIGGER job_changed;
ALTER TABLE pgq_ext.job_1 ENABLE TRIGGER job_fence;
DO $$ BEGIN
	PERFORM set_config('debug_discard_caches', '1', true);
EXCEPTION WHEN invalid_parameter_value THEN NULL;
END $$;
SELECT pgq_ext.verify_tables();
ROLLBACK;
SELECT pgq_drop_queue('discard');
