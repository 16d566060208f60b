# Rows of a watched table that are too long for JSON.
# Long: values of 256 MB.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PgqTest;
use Test::More;

my $node = pgq_node('long', conf => "fsync = off\n");
my $ask = in_one_session($node);
sub sql { return $ask->($_[0]) }

create_queue($node, 'q');
sql(q{CREATE TABLE big (id int PRIMARY KEY, small int, data text, bytes bytea); SELECT pgq_watch_table('big', 'q')});
my ($state, $message) = sqlstate($node, q{INSERT INTO big VALUES (1, 1, repeat('x', 268435456))});
is($state, '54000', 'a text of 256 MB');
like($message, qr/value is too long for JSON.*HINT:  Name the columns that the jobs are to have.*CONTEXT:  JSON of column "data" of watched table public.big/s, '... the column is named');
($state, $message) = sqlstate($node, q{INSERT INTO big (id, bytes) SELECT 1, convert_to(repeat('x', 134217727), 'SQL_ASCII')});
is($state, '54000', 'a bytea of 128 MB');
like($message, qr/JSON of column "bytes" of watched table public.big/, '... the column is named');
($state, $message) = sqlstate($node, q{INSERT INTO big SELECT 1, 1, repeat('x', 200000000), convert_to(repeat('x', 100000000), 'SQL_ASCII')});
is($state, '54000', 'a row of 400 MB');
like($message, qr/JSON of a row of watched table public.big/, '... the table is named');
sql(q{SELECT pgq_watch_table('big', 'q', columns => '{small}')});
sql(q{INSERT INTO big VALUES (1, 1, repeat('x', 268435456))});
is(sql(q{SELECT payload->'new' FROM pgq_ext.job}), '{"small": 1}', 'columns is the way out');

$node->stop;
done_testing();
