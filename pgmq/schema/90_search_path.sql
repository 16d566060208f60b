-- ---- search path ----

-- Objects that another role has made in a schema of the caller's search path must not run in these functions.
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT p.oid FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
        WHERE p.pronamespace = 'pgmq'::pg_catalog.regnamespace AND l.lanname IN ('sql', 'plpgsql') LOOP
        EXECUTE pg_catalog.format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', f);
    END LOOP;
END $$;
