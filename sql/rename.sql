-- pgq_rename_queue: what it takes, and who may. What it keeps, and who waits for it, is in test/t/112_rename.pl.
SELECT pgq_create_queue('named'), pgq_create_queue('taken'), pgq_create_queue('ren');
\set VERBOSITY verbose
\set SHOW_CONTEXT never
CREATE FUNCTION state_of(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE command INTO answer;
    RETURN COALESCE(answer, 'NULL');
EXCEPTION WHEN OTHERS THEN
    RETURN concat_ws(' ', SQLSTATE, SQLERRM);
END $$;
GRANT EXECUTE ON FUNCTION state_of TO PUBLIC;
SELECT c AS arguments, state_of('SELECT pgq_rename_queue(' || c || ')') FROM unnest(ARRAY[
    $$NULL, 'x'$$, $$'named', NULL$$, $$'nothing_like_it', 'x'$$, $$'named', 'two words'$$, $$'named', ''$$, $$'', 'named'$$,
    $$'named', repeat('n', 60)$$, $$'named', 'taken'$$, $$'named', 'named'$$, $$'named', 'x'$$, $$'named', 'y'$$, $$'x', 'named'$$]) c;
SET default_transaction_read_only = on;
SELECT state_of($$SELECT pgq_rename_queue('named', 'x')$$);
RESET default_transaction_read_only;

-- Who administers the queue, and nobody else; under the new name it is theirs as well.
CREATE ROLE regress_pgq_chief;
CREATE ROLE regress_pgq_other;
GRANT EXECUTE ON FUNCTION pgq_rename_queue TO regress_pgq_chief, regress_pgq_other;
SET client_min_messages = warning;
SELECT pgq_grant('ren', 'regress_pgq_chief', '{admin}'), pgq_grant('ren', 'regress_pgq_other', '{enqueue,claim,inspect}');
RESET client_min_messages;
SET ROLE regress_pgq_other;
SELECT state_of($$SELECT pgq_rename_queue('ren', 'amed')$$);
SET ROLE regress_pgq_chief;
SELECT state_of($$SELECT pgq_rename_queue('ren', 'amed')$$), state_of($$SELECT pgq_rename_queue('amed', 'ren')$$);
RESET ROLE;
REVOKE EXECUTE ON FUNCTION pgq_rename_queue FROM regress_pgq_chief;
SET ROLE regress_pgq_chief;
SELECT state_of($$SELECT pgq_rename_queue('ren', 'amed')$$);
RESET ROLE;
SELECT pgq_drop_queue(q) FROM unnest('{named,taken,ren}'::text[]) q;
DROP OWNED BY regress_pgq_chief, regress_pgq_other;
DROP ROLE regress_pgq_chief, regress_pgq_other;
DROP FUNCTION state_of;
