# Texts in other encodings: an error text that is too long for the views is cut between two characters, and a name
# with invisible characters is refused.
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

# ---- names ----

my %encoding = (
	LATIN1    => { good => 'chr(228)',                              bad => [ 'chr(160)', q{chr(155) || '2J'}, 'chr(173)', 'chr(133)' ] },
	WIN1251   => { good => 'chr(228) || chr(147)',                  bad => ['chr(160)'] },
	EUC_JP    => { good => q{convert_from('\\xa4a2', 'EUC_JP')}, bad => [q{convert_from('\\xa1a1', 'EUC_JP')}] },
	SQL_ASCII => { good => q{chr(160) || chr(228)},                 bad => [ 'chr(127)', 'chr(10)' ] });
for my $encoding (sort keys %encoding)
{
	my $db = lc $encoding;
	sql("CREATE DATABASE $db ENCODING '$encoding' TEMPLATE template0 LOCALE 'C'");
	sql('CREATE EXTENSION pgq_ext', $db);
	my ($good, @bad) = ($encoding{$encoding}{good}, @{ $encoding{$encoding}{bad} });
	is((sqlstate($node, "SELECT pgq_create_queue('n' || $good); SELECT pgq_enqueue('n' || $good, '1'); SELECT payload FROM pgq_claim('n' || $good)", $db))[0], '', "$encoding: a letter is good in a name");
	is(join(' ', map { (sqlstate($node, "SELECT pgq_create_queue('n' || $_)", $db))[0] } @bad), join(' ', ('22023') x @bad), '... and what is not seen is not');
	is((sqlstate($node, "UPDATE pgq_ext.queue SET queue = 'n' || $bad[0]", $db))[0], '22023', '... by SQL, too');
}

$node->stop;
done_testing();
