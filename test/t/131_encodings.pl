# Texts in other encodings: errors that are too long for the views are cut between two characters.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use RotationTest;

my $node = rotating_node('main');
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }

# ---- errors of the scheduler ----

# An index that somebody has added, whose expression fails for jobs with a number from some moment on: with two bytes a character, and so
# in the middle of one where the text is cut.
create_queue($node, 'slow', q{lease_time => '1 s'});
enqueue_slow($node, 3);
sql(q{CREATE TABLE broken (); CREATE FUNCTION fails(payload jsonb) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
	BEGIN
		IF jsonb_typeof(payload) = 'number' AND EXISTS (SELECT FROM public.broken) THEN RAISE '%', repeat(chr(1078), 400); END IF;
		RETURN 1;
	END $$;
	SELECT format('CREATE INDEX ON %s (public.fails(payload))', inhrelid::regclass) FROM pg_inherits WHERE inhparent = 'pgq_ext.job'::regclass \gexec
	INSERT INTO broken DEFAULT VALUES;
	SELECT count(*) FROM pgq_claim('slow')});
next_segment($node);
wait_for($node, q{count(*) > 0 FROM pgq_ext.duty WHERE failing_since IS NOT NULL AND last_error <> ''});
wait_for($node, q{count(*) > 0 FROM pgq_ext.segment_entries() WHERE error <> ''});
for my $text (q{SELECT last_error AS text, 127 AS length FROM pgq_ext.duty WHERE last_error IS NOT NULL}, q{SELECT error AS text, 79 AS length FROM pgq_ext.segment_entries() WHERE error IS NOT NULL})
{
	my $what = $text =~ /duty/ ? 'the view duty' : 'the view segment';
	is(sql("SELECT bool_and(length(t.text) = t.length AND t.text = repeat(chr(1078), t.length)) FROM ($text) t"), 't', "$what: as many characters as there is room for");
	is((sqlstate($node, "SET client_encoding = 'KOI8R'; $text"))[0], '', '... which another encoding has, too');
}
is((sqlstate($node, q{SET client_encoding = 'KOI8R'; SELECT upper(held_by) FROM pgq_ext.segment}))[0], '', '... and functions take');

$node->stop;
done_testing();
