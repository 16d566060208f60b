# Room for named locks and rates: each database has its own quota, entries that are over are freed when room is
# needed, and a rate whose entry was freed comes back with its state.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use PgqTest;
use Session;

# Each of the four databases has 4 locks and 2 rates of its own; 60 and 30 are anybody's.
my $node = pgq_node('main', conf => "max_prepared_transactions = 50\npgq_ext.max_locks = 64\npgq_ext.max_rates = 32\npgq_ext.max_databases = 4\n");
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other',    'CREATE EXTENSION pgq_ext');

sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }
sub other_state { my ($sql) = @_; return (sqlstate($node, $sql, 'other'))[0] }
sub used { return sql("SELECT used || '/' || bound FROM pgq_ext.capacity WHERE name = '$_[0]'") }
my $release = 'SELECT count(pgq_unlock(name, token)) FROM pgq_ext.lock';

# ---- one database takes all that it can get ----

is(sql(q{SELECT count(pgq_lock('n' || i, ttl => '1000 years')) FROM generate_series(1, 64) i}), '64', 'one database alone can have max_locks');
is((sqlstate($node, q{SELECT pgq_lock('more')}))[0], '53400', '... and not one more');
is(sql(q{SELECT count(pgq_lock('n' || i, ttl => '1 h')) FROM generate_series(1, 3) i}, 'other'), '3', 'another database has locks of its own');
is(sql(q{SELECT pgq_run_once('nightly') > 0}, 'other'), 't', '... for runs as well');
is(other_state(q{SELECT pgq_lock('more')}), '53400', '... and no more than these');
is(used('locks and runs held'), '64/64', 'the fullest database is shown');
is(used('locks and runs beyond the own shares of databases'), '60/60', '... and what is beyond the own shares');
$node->stop('fast');
$node->start;
wait_until_up($node);
is(sql(q{SELECT pgq_lock('n1') IS NULL}), 't', 'after a restart all are held');
is(sql(q{SELECT pgq_lock('n1') IS NULL}, 'other'), 't', '... in both databases');
sql($release);
is(sql(q{SELECT count(pgq_lock('m' || i, ttl => '1 h')) FROM generate_series(1, 60) i}, 'other'), '60', 'what one gives back any one can have');
sql($release, 'other');
sql(q{SELECT count(pgq_unlock(name, token)) FROM pgq_ext.run}, 'other');

# ---- what is over ----

# In one transaction each, so that nobody sweeps them before they are in the way.
sub over { my ($database, $prefix, $n) = @_; sql("SELECT count(pgq_lock('$prefix' || i, ttl => '1 s')) FROM generate_series(1, $n) i", $database) }
for my $database ('postgres', 'other')
{
	over($database, 'over', 60);
	wait_for($node, q{count(*) = 0 FROM pgq_ext.lock WHERE expires_at > clock_timestamp()}, $database);
	is(sql(q{SELECT count(pgq_lock('now' || i, ttl => '1 h')) FROM generate_series(1, 64) i}), '64', "locks whose time is over in $database keep nobody from a lock");
	sql($release);
}
my $began = sql('SELECT clock_timestamp()');
my $leader = session($node);
ask($leader, q{SELECT count(pgq_lock('bound' || i, ttl => '1 day', session_bound => true)) FROM generate_series(1, 64) i});
my $pid = pid_of($leader);
my $s = session($node);
my $token = sql(q{SELECT token FROM pgq_ext.lock WHERE name = 'bound7'});
ask($s, "BEGIN; SELECT pgq_assert_lock('bound7', $token)");
end_session($leader);
wait_for($node, "count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
is(sql(qq{SELECT expires_at BETWEEN '$began'::timestamptz - interval '10 s' AND clock_timestamp() FROM pgq_ext.lock WHERE name = 'bound7'}), 't', 'a lock that was bound to a session has ended when that did');
is(sql(q{SELECT count(pgq_lock('now' || i, ttl => '1 h')) FROM generate_series(1, 63) i}), '63', '... and keeps nobody from a lock');
is((sqlstate($node, q{SELECT pgq_lock('more')}))[0], '53400', '... unless a transaction relies on it');
ask($s, 'ROLLBACK');
is(sql(q{SELECT pgq_lock('more') > 0}), 't', '... and then as well');
sql($release);

# ---- prepared transactions ----

# Of 40 that have ended some slots of one name; and one that has many names.
for my $i (1 .. 40)
{
	ask($s, "BEGIN; SELECT pgq_lock('slots', ttl => '1 h', slots => 40); PREPARE TRANSACTION 'p$i'");
}
ask($s, q{BEGIN; SELECT count(pgq_lock('many' || i, ttl => '1 h')) FROM generate_series(1, 20) i});
ask($s, q{PREPARE TRANSACTION 'many'});
is(sql(q{SELECT pgq_lock('free', ttl => '1 h') > 0}), 't', 'a lock of another name beside prepared ones');
is(sql(q{SELECT pgq_lock('many5') IS NULL}), 't', '... which hold theirs');
sql("ROLLBACK PREPARED 'p$_'") for 1 .. 39;
is(sql(q{SELECT count(pgq_lock('slots', slots => 40, ttl => '2 h')) FROM generate_series(1, 40)}), '39', 'all that have ended are noticed by who asks for that name');
sql(q{ROLLBACK PREPARED 'many'});
is(sql(q{SELECT count(pgq_lock('room' || i, ttl => '1 h')) FROM generate_series(1, 23) i}), '23', '... and by who needs room');
sql(q{COMMIT PREPARED 'p40'});
is(sql(q{SELECT count(*) FROM pgq_ext.held_lock WHERE name = 'slots' AND ttl = 3600000000}), '1', 'the one that was committed holds');
sql($release);

# ---- waiters that name different slots ----

{
	my @held = map { sql(q{SELECT pgq_lock('sem', slots => 3, ttl => '1 h')}) } 1 .. 3;
	my ($one, $three) = map { session($node) } 1, 2;
	send_sql($one, q{SELECT pgq_lock('sem', slots => 1, wait => '60 s', ttl => '1 h')});
	wait_for($node, q{max(waiting) = 1 FROM pgq_ext.lock WHERE name = 'sem'});
	send_sql($three, q{SELECT pgq_lock('sem', slots => 3, wait => '60 s', ttl => '1 h')});
	wait_for($node, q{max(waiting) = 2 FROM pgq_ext.lock WHERE name = 'sem'});
	sql("SELECT pgq_unlock('sem', $_)") for @held[0, 1];
	cmp_ok(scalar reply($three), '>', $held[2], 'who asks for more slots gets one');
	ok(!is_answered($one), '... while one who was there before goes on waiting');
	sql($release);
	cmp_ok(scalar reply($one), '>', $held[2], '... for all of them');
	sql($release);
	end_session($_) for $one, $three;
}

# ---- rates ----

sql(q{SELECT count(pgq_create_rate('r' || i, 1, '1 s')) FROM generate_series(1, 40) i});
for my $part ([ 1, 20 ], [ 21, 40 ], [ 1, 20 ], [ 21, 40 ])
{
	usleep(1_100_000);
	is(sql("SELECT count(*) FROM generate_series($part->[0], $part->[1]) i WHERE pgq_take('r' || i)"), '20', "rates $part->[0] to $part->[1], of more than there is room for, give what they may");
}
usleep(1_100_000);
sql(q{SELECT count(pgq_create_rate('slow' || i, 1, '1 hour')) FROM generate_series(1, 40) i});
is(sql(q{SELECT count(*) FROM generate_series(1, 32) i WHERE pgq_take('slow' || i)}), '0', 'rates that were made just now are empty');
is((sqlstate($node, q{SELECT pgq_take('slow33')}))[0], '53400', '... and none of them gives way');
is(used('rates in use'), '32/32', '... as one can see');
sql(q{SELECT count(pgq_create_rate('slow' || i, 1, '1 hour')) FROM generate_series(1, 3) i}, 'other');
is(sql(q{SELECT count(*) FROM generate_series(1, 2) i WHERE NOT pgq_take('slow' || i)}, 'other'), '2', 'another database has rates of its own');
is(other_state(q{SELECT pgq_take('slow3')}), '53400', '... and no more');
is(used('rates beyond the own shares of databases'), '30/30', '... since all others are in use');
sql(q{SELECT pgq_drop_rate('slow1')});
is(sql(q{SELECT pgq_take('slow33')}), 'f', 'a rate that is dropped makes room');
$node->stop;
done_testing();
