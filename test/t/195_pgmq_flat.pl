# The extension pgmq while a session keeps an old snapshot: the rows of deleted messages cannot be removed, and a read must not go
# through them. The pages that a read looks at are counted, so the result does not depend on the machine.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', conf => "autovacuum = off\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }

sql('CREATE EXTENSION pgmq CASCADE');
sql(q{SELECT pgmq.create('flat')});
sql(q{SELECT count(*) FROM pgmq.send_batch('flat', array_fill('{}'::jsonb, ARRAY[1000]))});
sql(q{
	CREATE FUNCTION pages_of_reads(n int) RETURNS int LANGUAGE plpgsql AS $$
	DECLARE
		plan json;
		pages int := 0;
	BEGIN
		FOR i IN 1 .. n LOOP
			EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT json) SELECT * FROM pgmq.read(''flat'', 3600, 1)' INTO plan;
			pages := pages + (plan->0->'Plan'->>'Shared Hit Blocks')::int + (plan->0->'Plan'->>'Shared Read Blocks')::int;
		END LOOP;
		RETURN pages;
	END $$;
	CREATE PROCEDURE cycles(n int) LANGUAGE plpgsql AS $$
	DECLARE
		id bigint;
	BEGIN
		FOR i IN 1 .. n LOOP
			PERFORM pgmq.send('flat', '{}');
			COMMIT;
			SELECT msg_id INTO STRICT id FROM pgmq.read('flat', 3600, 1);
			COMMIT;
			PERFORM pgmq.delete('flat', id);
			COMMIT;
		END LOOP;
	END $$});

my $old = session($node);
ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
ask($old, 'SELECT 1');
sql('CALL cycles(1000)');
my $before = sql('SELECT pages_of_reads(100)');
sql('CALL cycles(3000)');
my $after = sql('SELECT pages_of_reads(100)');
note("$before pages for 100 reads after 1,000 messages under an old snapshot, $after after 4,000");
# Reads of rows that memory lacks take some pages. A read that goes through the dead rows takes thousands.
cmp_ok($after, '<', 2000, 'reads do not look at deleted messages');
ask($old, 'COMMIT');

done_testing();
