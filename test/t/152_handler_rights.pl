# Handlers whose function, role or rights go away, come back or change while jobs wait: the handler is suspended, the
# view names the reason, no attempt is spent, and the jobs run as soon as the cause is gone. Also: the roles that may
# set and change a handler; copies of a database; transactions that set a handler; a handler whose jobs all fail.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use HandlerTest ':gate';

my $node = gated_node("pgq_ext.max_handler_workers = 4\nmax_prepared_transactions = 5\nautovacuum = off\n");

# ---- what goes away while 1,000 jobs wait, and comes back ----

create_queue($node, 'q');
set_handler('q', q{run_as => 'runner', workers => 2, timeout => '10 min', idle => '10 min'});

# Two calls wait at the gate when the cause comes. One of them ends well after that, or is given back; the other one
# raises an error, which must not count.
sub survives_ok
{
	my ($what, $cause, $reason, @undo) = @_;
	sql('TRUNCATE app.ran');
	close_gate();
	my $bad = sql(q{SELECT pgq_enqueue('q', '"bad"', priority => 1)});
	sql(q{SELECT count(pgq_enqueue('q', to_jsonb(i))) FROM generate_series(1, 1000) i});
	wait_at_gate(2);
	sql($cause);
	wait_for_state('q', 'suspended', $reason);
	pass("$what: the handler is suspended, while two calls are in progress");
	open_gate();
	wait_for($node, q{running = 0 FROM pgq_ext.handler WHERE queue = 'q'});
	wait_for($node, q{leased = 0 FROM pgq_ext.queue_status WHERE queue = 'q'});
	is(sql(q{SELECT count(*) BETWEEN 1000 AND 1001, max(attempts), string_agg(DISTINCT state, ' ') FROM pgq_ext.job_status}), 't|0|ready', '... no attempt is spent, and the other jobs wait');
	sql("SELECT pgq_cancel($bad)");
	ref $_ ? $_->() : sql($_) for @undo;
	wait_for($node, 'count(*) = 0 FROM pgq_ext.job_status');
	is(sql('SELECT count(*), count(DISTINCT payload), (SELECT count(*) FROM pgq_ext.dead_job) FROM app.ran'), '1000|1000|0', '... the cause is gone: each job has run once');
	wait_for_state('q', 'idle');
	return;
}
my $stays = sub {
	my ($reason, $what) = @_;
	wait_for_look();
	return is(sql(q{SELECT state FROM pgq_ext.handler WHERE queue = 'q' AND reason ~ '} . $reason . q{'}), 'suspended', $what);
};

survives_ok('DROP FUNCTION', 'DROP FUNCTION app.work', 'function app.work was dropped',
	'SET ROLE mallory; ' . work('app.work', 'planted'),
	sub { $stays->('was dropped', '... another role has created one of that name: it is not called'); fails_ok('42501', 'permission denied for function pgq_resume_handler', q{SET ROLE mallory; SELECT pgq_resume_handler('q')}, '... and its author cannot let it run') },
	q{DROP FUNCTION app.work; SET ROLE author; } . work('app.work', 'first'),
	sub { $stays->('was dropped', '... nor one that its owner has created again') },
	q{SELECT pgq_resume_handler('q')});
survives_ok('ALTER FUNCTION ... OWNER', 'ALTER FUNCTION app.work OWNER TO mallory', 'function app.work has another owner', 'ALTER FUNCTION app.work OWNER TO author');
survives_ok('another owner, accepted', 'ALTER FUNCTION app.work OWNER TO other', 'another owner', q{SELECT pgq_resume_handler('q')});
sql(q{ALTER FUNCTION app.work OWNER TO author});
set_handler('q', q{run_as => 'runner', workers => 2, timeout => '10 min', idle => '10 min'});
survives_ok('ALTER FUNCTION ... RENAME', 'ALTER FUNCTION app.work RENAME TO work2', 'function app.work has another name', 'ALTER FUNCTION app.work2 RENAME TO work');
survives_ok('ALTER FUNCTION ... SET SCHEMA', 'ALTER FUNCTION app.work SET SCHEMA app2', 'function app.work has another name, schema', 'ALTER FUNCTION app2.work SET SCHEMA app');
survives_ok('REVOKE EXECUTE on the function', 'REVOKE EXECUTE ON FUNCTION app.work FROM PUBLIC', 'permission denied for function work: role "runner"', 'GRANT EXECUTE ON FUNCTION app.work TO PUBLIC');
survives_ok("REVOKE EXECUTE on $_", "REVOKE EXECUTE ON FUNCTION $_ FROM runner", "permission denied for function $_: role \"runner\"", "GRANT EXECUTE ON FUNCTION $_ TO runner") for 'pgq_claim', 'pgq_ack';
survives_ok('the queue is closed', q{SELECT pgq_grant('q', 'other', '{claim}')}, 'permission denied for queue "q": role "runner"', q{SELECT pgq_grant('q', 'runner', '{claim}')});
survives_ok('pgq_revoke', q{SELECT pgq_revoke('q', 'runner', '{claim}')}, 'permission denied for queue "q": role "runner"', q{SELECT pgq_grant('q', 'runner', '{claim}')});
survives_ok('ALTER ROLE NOLOGIN', 'ALTER ROLE runner NOLOGIN', 'role "runner" may not log in', 'ALTER ROLE runner LOGIN');
survives_ok('REVOKE CONNECT', 'REVOKE CONNECT ON DATABASE postgres FROM PUBLIC', 'role "runner" may not connect to this database', 'GRANT CONNECT ON DATABASE postgres TO PUBLIC');
survives_ok('the role becomes a superuser', 'ALTER ROLE runner SUPERUSER', 'handlers must not run as superuser "runner"', 'ALTER ROLE runner NOSUPERUSER');
survives_ok('DROP ROLE', 'DROP OWNED BY runner; DROP ROLE runner', 'role "runner" does not exist',
	q{CREATE ROLE runner LOGIN; GRANT ALL ON app.ran TO runner; GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO runner; SELECT pgq_grant('q', 'runner', '{claim}')},
	sub { $stays->('does not exist', '... a new role of that name is another role') },
	q{SELECT pgq_resume_handler('q')});

sql('ALTER ROLE runner RENAME TO renamed');
runs_ok('q', 'ALTER ROLE ... RENAME changes nothing');
is(sql(q{SELECT run_as FROM pgq_ext.handler WHERE queue = 'q'}), 'renamed', '... the view has the new name');
sql('ALTER ROLE renamed RENAME TO runner');

# ---- superusers ----

sql('CREATE ROLE boss LOGIN SUPERUSER; GRANT ALL ON app.ran TO boss');
create_queue($node, 'super');
fails_ok('42501', 'must not run as superuser "boss"', q{SELECT pgq_set_handler('super', 'app.work(pgq_ext.claimed_job)', run_as => 'boss')}, 'a handler does not run as a superuser');
set_setting('pgq_ext.superuser_handlers', 'on');
sql('CREATE ROLE chief LOGIN; GRANT boss TO chief; GRANT EXECUTE ON FUNCTION pgq_set_handler, pgq_claim, pgq_ack TO chief; GRANT USAGE ON SCHEMA pgq_ext TO chief');
fails_ok('42501', 'must not run as superuser "boss"', q{SET ROLE chief; SELECT pgq_set_handler('super', 'app.work(pgq_ext.claimed_job)', run_as => 'boss')}, '... with the setting, not if a member of the superuser sets it');
set_handler('super', q{run_as => 'boss'});
runs_ok('super', '... with the setting, and set by a superuser, it does');
is(sql('SELECT DISTINCT role FROM app.ran'), 'boss', '... as that superuser');
set_setting('pgq_ext.superuser_handlers', 'off');
wait_for_state('super', 'suspended', 'superuser "boss"');
sql(q{SELECT pgq_enqueue('super', '2')});
wait_for_look();
is(has_run('super'), '1', 'without the setting it is suspended');
set_setting('pgq_ext.superuser_handlers', 'on');
wait_until_ran(2, 'super');
pass('... and runs when the setting is back');
sql('CREATE ROLE rising LOGIN; GRANT ALL ON app.ran TO rising; GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO rising');
create_queue($node, 'rising');
set_handler('rising', q{run_as => 'rising'});
runs_ok('rising', 'a superuser sets a handler for a role that is none');
sql('ALTER ROLE rising SUPERUSER');
wait_for_state('rising', 'suspended', 'superuser "rising"');
pass('... the role becomes a superuser: suspended, whatever the setting says, since nobody has set it for a superuser');
set_handler('rising', q{run_as => 'rising'});
runs_ok('rising', '... until a superuser sets it again');
set_setting('pgq_ext.superuser_handlers', 'off');
sql('ALTER ROLE rising NOSUPERUSER');
runs_ok('rising', 'a role that is no superuser any more needs no setting');

# ---- CREATE OR REPLACE ----

create_queue($node, 'replaced');
set_handler('replaced', q{run_as => 'runner', idle => '10 min'});
runs_ok('replaced', 'a worker that stays');
is(sql('SELECT note FROM app.ran'), 'first', '... calls the function as it is');
sql('SET ROLE author; ' . work('app.work', 'second'));
runs_ok('replaced', 'CREATE OR REPLACE FUNCTION by its owner');
is(sql('SELECT note FROM app.ran'), 'second', '... is honoured at the next call');

# ---- the roles that may set a handler ----

create_queue($node, 'closed');
sql(q{CREATE ROLE setter LOGIN NOINHERIT; CREATE ROLE admin LOGIN; CREATE ROLE stranger LOGIN; GRANT ALL ON app.ran TO stranger;
	GRANT EXECUTE ON FUNCTION pgq_set_handler, pgq_drop_handler, pgq_pause_handler, pgq_resume_handler, pgq_claim, pgq_ack TO setter, admin, stranger;
	GRANT USAGE ON SCHEMA pgq_ext TO setter, admin, stranger;
	SELECT pgq_grant('closed', 'setter', '{claim}'), pgq_grant('closed', 'runner', '{claim}'), pgq_grant('closed', 'admin', '{admin}'); GRANT runner TO setter});
my $set = q{SELECT pgq_set_handler('closed', 'app.work(pgq_ext.claimed_job)', run_as => 'runner')};
my $public = 'EXECUTE ON FUNCTION app.work FROM PUBLIC; GRANT EXECUTE ON FUNCTION app.work';
fails_ok('', '', "SET ROLE setter; $set", 'a role that can SET ROLE to run_as sets a handler, also if it does not inherit the rights');
for my $case (
	[ '42501', 'permission denied to run a handler as role "runner"', 'REVOKE runner FROM setter', 'GRANT runner TO setter', 'the caller is no member' ],
	(map { [ '42501', "permission denied for queue \"closed\"" . ($_ eq 'runner' ? ': role "runner"' : ''), "SELECT pgq_revoke('closed', '$_', '{claim}')", "SELECT pgq_grant('closed', '$_', '{claim}')", "$_ lacks the right to claim" ] } 'setter', 'runner'),
	(map { my ($function, $role) = @$_; [ '42501', "permission denied for function $function: role \"$role\"", "REVOKE EXECUTE ON FUNCTION $function FROM $role", "GRANT EXECUTE ON FUNCTION $function TO $role", "$role lacks EXECUTE on $function" ] }
		map { [ 'pgq_claim', $_ ], [ 'pgq_ack', $_ ] } 'setter', 'runner'),
	(map { my ($has, $lacks) = @$_; [ '42501', "permission denied for function work: role \"$lacks\"", "REVOKE $public TO $has", "REVOKE EXECUTE ON FUNCTION app.work FROM $has; GRANT EXECUTE ON FUNCTION app.work TO PUBLIC", "$lacks lacks EXECUTE on the handler" ] }
		[ 'runner', 'setter' ], [ 'setter', 'runner' ]),
	[ '42501', 'permission denied for function pgq_set_handler', 'REVOKE EXECUTE ON FUNCTION pgq_set_handler FROM setter', 'GRANT EXECUTE ON FUNCTION pgq_set_handler TO setter', 'the caller lacks EXECUTE on pgq_set_handler' ],
	[ '42501', 'superuser "runner"', 'ALTER ROLE runner SUPERUSER', 'ALTER ROLE runner NOSUPERUSER', 'run_as is a superuser' ],
	[ '55000', 'role "runner" may not log in', 'ALTER ROLE runner NOLOGIN', 'ALTER ROLE runner LOGIN', 'run_as may not log in' ],
	[ '42501', 'role "runner" may not connect', 'REVOKE CONNECT ON DATABASE postgres FROM PUBLIC', 'GRANT CONNECT ON DATABASE postgres TO PUBLIC', 'run_as may not connect' ])
{
	my ($state, $message, $cause, $undo, $what) = @$case;
	sql(q{SELECT pgq_drop_handler('closed')});
	sql($cause);
	fails_ok($state, $message, "SET ROLE setter; $set", "$what: $state");
	sql($undo);
}
SKIP:
{
	skip 'SET FALSE came with PostgreSQL 16', 3 if sql('SHOW server_version_num') < 160000;
	sql(q{SELECT pgq_drop_handler('closed'); GRANT runner TO setter WITH INHERIT TRUE, SET FALSE});
	fails_ok('42501', 'permission denied to run a handler as role "runner"', "SET ROLE setter; $set", 'a member WITH INHERIT TRUE, SET FALSE may not set it');
	sql('GRANT runner TO setter WITH INHERIT FALSE, SET TRUE');
	fails_ok('', '', "SET ROLE setter; $set", 'a member WITH INHERIT FALSE, SET TRUE may set it');
}
create_queue($node, 'open');
fails_ok('', '', q{SET ROLE stranger; SELECT pgq_set_handler('open', 'app.work(pgq_ext.claimed_job)')}, 'in an open queue EXECUTE is the right; run_as is the current role if it is not given');
runs_ok('open', '... also for the worker');
is(sql('SELECT role FROM app.ran'), 'stranger', '... which is that role');

# Roles that may change the handler of another role.
sql(q{SELECT pgq_grant('closed', 'stranger', '{claim}'), pgq_grant('closed', 'admin', '{claim}'); GRANT stranger TO admin});
my $replace = q{SELECT pgq_set_handler('closed', 'app.work(pgq_ext.claimed_job)', run_as => 'stranger')};
my $denied  = 'permission denied for the handler of queue "closed"';
for my $call (q{pgq_pause_handler('closed')}, q{pgq_resume_handler('closed')}, q{pgq_drop_handler('closed')})
{
	sql($set);
	fails_ok('42501', $denied, "SET ROLE stranger; SELECT $call", "$call: not by a role with the right to claim");
	fails_ok('', '', "SET ROLE setter; SELECT $call", '... by a role that can become run_as');
	sql($set);
	if ($call =~ /resume/) { fails_ok('42501', 'permission denied to run a handler as role "runner"', "SET ROLE admin; SELECT $call", '... by an administrator only if it could set the handler') }
	else                   { fails_ok('', '', "SET ROLE admin; SELECT $call", '... by an administrator of the queue') }
}
sql($set);
fails_ok('42501', $denied, "SET ROLE stranger; $replace", 'a role that can set its own handler does not replace that of another role');
fails_ok('', '', "SET ROLE admin; $replace", '... an administrator of the queue does');
fails_ok('42501', $denied, "SET ROLE setter; $set", '... and the role before cannot take it back');
sql($set);
sql('DROP OWNED BY setter; DROP ROLE setter');
runs_ok('closed', 'a handler runs on when the role that has set it is gone');
sql(q{SELECT pgq_create_queue('bare')});
is(sql(q{SELECT pgq_drop_handler('bare')}), 'f', 'a queue without a handler');
fails_ok('42704', 'queue "bare" has no handler', "SELECT $_('bare')", "... $_: 42704") for 'pgq_pause_handler', 'pgq_resume_handler';
fails_ok('42704', 'queue "none" does not exist', "SELECT $_('none')", "no queue: $_: 42704") for 'pgq_pause_handler', 'pgq_resume_handler', 'pgq_drop_handler';

# ---- rows that the owner of the tables writes ----

sql('CREATE ROLE appdba LOGIN SUPERUSER');
sql('CREATE DATABASE owned');
sql('SET ROLE appdba; CREATE EXTENSION pgq_ext', 'owned');
sql('ALTER ROLE appdba NOSUPERUSER');
prepare_database('owned');
create_queue($node, 'o', undef, 'owned');
fails_ok('42501', 'the owner of pgq_ext could not SET ROLE to "runner"', q{SELECT pgq_set_handler('o', 'app.work(pgq_ext.claimed_job)', run_as => 'runner')}, 'the owner of the tables is no superuser: no handlers for roles that it cannot become', 'owned');
sql(q{SET ROLE appdba; SELECT pgq_set_handler('o', 'app.work(pgq_ext.claimed_job)')}, 'owned');
runs_ok('o', '... a handler for itself', 'owned');
sql(q{SET ROLE appdba; UPDATE pgq_ext.queue_handler SET run_as = 'runner'::regrole, run_as_name = 'runner'}, 'owned');
wait_for_state('o', 'suspended', 'could not SET ROLE to "runner"', 'owned');
sql(q{SELECT pgq_enqueue('o', '2')}, 'owned');
wait_for_look('owned');
is(sql(q{SELECT count(*) FROM app.ran}, 'owned'), '1', '... which it gives the name of another role: it is not called');
sql('GRANT runner TO appdba');
wait_until_ran(2, 'o', 'owned');
is(sql(q{SELECT string_agg(role, ' ' ORDER BY payload) FROM app.ran}, 'owned'), 'appdba runner', '... until the owner can become that role');
sql('REVOKE runner FROM appdba');
sql(q{UPDATE pgq_ext.queue_handler SET run_as = 'postgres'::regrole, run_as_name = 'postgres', superuser = true}, 'owned');
set_setting('pgq_ext.superuser_handlers', 'on');
wait_for_state('o', 'suspended', 'could not SET ROLE to "postgres"', 'owned');
pass('... nor one that says that a superuser has set it');
set_setting('pgq_ext.superuser_handlers', 'off');
$node->safe_psql('postgres', 'DROP DATABASE owned WITH (FORCE)');

# ---- rows that cannot be read ----

{
	sql(q{ALTER TABLE pgq_ext.queue_handler DROP CONSTRAINT queue_handler_timeout_check, DROP CONSTRAINT queue_handler_workers_check, ALTER schema_name DROP NOT NULL});
	my @broken = (
		[ 'long',  q{timeout = '1 year'},       'timeout.* is out of range' ],
		[ 'many',  'workers = 1000000',         'workers.* is out of range' ],
		[ 'null',  'schema_name = NULL',        'NULL|null' ],
		[ 'absurd', q{timeout = '178000000 years'}, 'timeout' ]);
	create_queue($node, "broken_$_->[0]") for @broken;
	set_handler("broken_$_->[0]") for @broken;
	create_queue($node, 'whole');
	set_handler('whole');
	runs_ok('broken_long', 'a handler whose row is fine');
	sql("UPDATE pgq_ext.queue_handler SET $_->[1] WHERE queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'broken_$_->[0]')") for @broken;
	for my $row (@broken)
	{
		my ($queue, $reason) = ("broken_$row->[0]", $row->[2]);
		wait_for_state($queue, 'suspended', "^its row in pgq_ext.queue_handler is invalid: .*$reason");
		pass("a row with $row->[1]: the handler is suspended, for that reason");
		is(sql("SELECT count(*) FROM pgq_ext.health WHERE \"check\" = 'handlers' AND detail LIKE '%$queue%is invalid%'"), '1', '... which health shows');
	}
	sql(q{SELECT pgq_enqueue('broken_long', '1')});
	runs_ok('whole', '... another handler runs');
	sql(q{SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE backend_type = 'pgq_ext handler'});
	runs_ok('whole', '... also by a new worker');
	is(sql(q{SELECT count(*) FROM pgq_ext.duty WHERE failures > 0}), '0', '... and no duty fails');
	is(sql(q{SELECT state, attempts FROM pgq_ext.job_status WHERE queue = 'broken_long'}), 'ready|0', '... the jobs of the broken one wait');
	fails_ok('55000', 'has an invalid row', q{SELECT pgq_pause_handler('broken_long')}, '... it cannot be paused');
	fails_ok('42501', 'permission denied', q{SET ROLE mallory; SELECT pgq_drop_handler('broken_long')}, '... nor dropped by another role');
	set_handler('broken_long');
	wait_until_ran(1, 'broken_long');
	pass('... but set anew; then its jobs run');
	is(sql("SELECT pgq_drop_handler('broken_$_->[0]')"), 't', '... or dropped') for @broken;
	sql(q{ALTER TABLE pgq_ext.queue_handler ALTER schema_name SET NOT NULL, ADD CONSTRAINT queue_handler_workers_check CHECK (workers BETWEEN 1 AND 1000),
		ADD CONSTRAINT queue_handler_timeout_check CHECK (timeout BETWEEN '1 s' AND '7 days')});
	sql("SELECT pgq_drop_queue('$_')") for map({ "broken_$_->[0]" } @broken), 'whole';
}

# ---- dump and restore ----

sql(q{SELECT count(pgq_drop_queue(queue, force => true)) FROM pgq_ext.queue; TRUNCATE app.ran});
create_queue($node, 'd');
close_gate();
set_handler('d', q{run_as => 'runner', batch => 3, timeout => '10 min'});
sql(q{SELECT pgq_enqueue('d', to_jsonb(i)) FROM generate_series(1, 5) i});
wait_at_gate(1);
my $dump = $node->basedir . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('postgres') ], 'pg_dump while a handler runs');
open_gate();
sql('CREATE DATABASE restored');
$node->command_ok([ 'pg_restore', '-e', '-j', '2', '-d', $node->connstr('restored'), $dump ], 'pg_restore');
wait_for_state('d', 'suspended', 'came from a dump or a copy', 'restored');
wait_for_look('restored');
is(sql(q{SELECT (SELECT count(*) FROM app.ran), count(*), max(attempts) FROM pgq_ext.job_status}, 'restored'), '0|5|0', 'restored: the handler is suspended, and the jobs wait');
is(sql(q{SELECT handler, run_as, workers, batch, timeout FROM pgq_ext.handler}, 'restored'), 'app.work(pgq_ext.claimed_job)|runner|1|3|00:10:00', '... it is what it was');
fails_ok('42501', 'permission denied for function pgq_resume_handler', q{SET ROLE other; SELECT pgq_resume_handler('d')}, '... not every role lets it run', 'restored');
sql(q{SELECT pgq_resume_handler('d')}, 'restored');
wait_until_ran(5, 'd', 'restored');
pass('... pgq_resume_handler lets it run');
wait_until_ran(5, 'd');
pass('... the original has gone on');

# ---- databases that are copied, renamed and dropped ----

# Both databases have workers: idle ones, or busy ones.
for my $busy (0, 1)
{
	my $work = $busy ? 'short calls run' : 'workers idle';
	$node->safe_psql('postgres', 'CREATE DATABASE moved');
	sql('CREATE EXTENSION pgq_ext', 'moved');
	prepare_database('moved');
	create_queue($node, 'm', undef, 'moved');
	set_handler('m', q{run_as => 'runner', workers => 2, idle => '1 h'}, 'moved');
	runs_ok('m', "while $work", 'moved');
	my $n = 1;
	my $busy_again = sub {
		my ($db) = @_;
		return if !$busy;
		my $running = 'f';
		# On a fast machine the calls may be over before they are seen.
		while ($running ne 't')
		{
			sql(q{SELECT count(pgq_enqueue('m', '1')) FROM generate_series(1, 2000)}, $db);
			$n += 2000;
			$running = sql('SELECT running > 0 FROM pgq_ext.handler', $db);
		}
	};
	$busy_again->('moved');
	$node->safe_psql('postgres', 'ALTER DATABASE moved RENAME TO moved2');
	pass('... RENAME');
	wait_until_ran($n, 'm', 'moved2');
	$busy_again->('moved2');
	$node->safe_psql('postgres', 'CREATE DATABASE copied TEMPLATE moved2');
	pass('... TEMPLATE');
	wait_until_ran($n, 'm', 'moved2');
	is(sql('SELECT count(*) FROM pgq_ext.dead_job', 'moved2'), '0', '... no job has failed, and all have run once');
	sql(q{SELECT pgq_enqueue('m', '1')}, 'copied');
	wait_for_state('m', 'suspended', 'came from a dump or a copy', 'copied');
	$n = sql(q{SELECT count(*) FROM app.ran}, 'copied');
	wait_for_look('copied');
	is(sql(q{SELECT count(*) FROM app.ran}, 'copied'), $n, '... the copy does not run');
	$busy_again->('moved2');
	$node->safe_psql('postgres', "DROP DATABASE $_") for 'moved2', 'copied';
	pass('... DROP');
}

# ---- the extension is updated and dropped while a worker runs ----

sql('TRUNCATE app.ran');
{
	my $version = sql(q{SELECT extversion FROM pg_extension WHERE extname = 'pgq_ext'});
	my @scripts = map { $node->config_data('--sharedir') . "/extension/pgq_ext--$_.sql" } "$version--97", "97--$version";
	append_to_file($_, 'COMMENT ON SCHEMA pgq_ext IS NULL;') for @scripts;
	close_gate();
	sql(q{SELECT pgq_enqueue('d', to_jsonb(i)) FROM generate_series(1, 5) i});
	sql(q{SELECT pgq_set_handler('d', 'app.work(pgq_ext.claimed_job)', run_as => 'runner', timeout => '10 min')});
	wait_at_gate(1);
	sql(q{ALTER EXTENSION pgq_ext UPDATE TO '97'});
	open_gate();
	wait_for($node, q{count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgq_ext handler'});
	pass('ALTER EXTENSION ... UPDATE to a version that the library does not serve: the worker ends');
	sql("ALTER EXTENSION pgq_ext UPDATE TO '$version'");
	wait_for($node, 'count(*) = 0 FROM pgq_ext.job_status');
	is(sql('SELECT count(*), count(DISTINCT payload), (SELECT count(*) FROM pgq_ext.dead_job) FROM app.ran'), '5|5|0', '... back again: each job has run once');
	unlink @scripts;
}
close_gate();
sql(q{SELECT pgq_enqueue('d', to_jsonb(i)) FROM generate_series(1, 5) i});
wait_at_gate(1);
sql('DROP EXTENSION pgq_ext CASCADE');
open_gate();
wait_for($node, q{count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgq_ext handler'});
pass('DROP EXTENSION during a call: the worker ends');
sql('CREATE EXTENSION pgq_ext; GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO runner; GRANT USAGE ON SCHEMA pgq_ext TO author');
sql('SET ROLE author; ' . work('app.work', 'third'));
create_queue($node, 'd');
set_handler('d');
runs_ok('d', '... and a new extension serves a new handler');

# ---- transactions that set a handler ----

create_queue($node, 't');
my @endings = (
	[ 'BEGIN; %s; ROLLBACK', 0 ], [ 'BEGIN; SAVEPOINT s; %s; ROLLBACK TO s; COMMIT', 0 ], [ q{BEGIN; %s; PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'}, 0 ],
	[ 'BEGIN; SAVEPOINT s; %s; RELEASE s; COMMIT', 1 ], [ q{BEGIN; %s; PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'}, 1 ]);
for my $ending (@endings)
{
	my ($how, $takes_effect) = @$ending;
	sql(q{TRUNCATE app.ran; SELECT pgq_drop_handler('t'), pgq_purge_queue('t'), pgq_enqueue('t', '1')});
	$node->safe_psql('postgres', sprintf $how, q{SELECT pgq_set_handler('t', 'app.work(pgq_ext.claimed_job)', run_as => 'runner', idle => '0')});
	is(sql(q{SELECT count(*) FROM pgq_ext.handler WHERE queue = 't'}), $takes_effect, $how);
	if ($takes_effect) { wait_until_ran(1, 't'); pass('... the job runs') }
	else               { wait_for_look(); is(sql('SELECT count(*) FROM app.ran'), '0', '... the job waits') }
}
{
	my $setter = session($node);
	ask($setter, q{BEGIN; SELECT pgq_drop_handler('t')});
	runs_ok('t', 'a handler runs until the transaction that drops it commits');
	ask($setter, 'COMMIT');
	sql(q{SELECT pgq_enqueue('t', '2')});
	wait_for_look();
	is(has_run('t'), '1', '... and not after that');
	end_session($setter);
}

# ---- queues that are dropped and renamed ----

set_handler('t', q{run_as => 'runner', idle => '10 min'});
wait_until_ran(2, 't');
sql(q{SELECT pgq_drop_queue('t', force => true); SELECT pgq_create_queue('t'), pgq_enqueue('t', '3')});
is(sql(q{SELECT count(*) FROM pgq_ext.queue_handler h WHERE NOT EXISTS (SELECT FROM pgq_ext.queue q WHERE q.queue_id = h.queue_id)}), '0', 'pgq_drop_queue deletes the handler');
wait_for_look();
is(has_run('t'), '2', '... a new queue of that name has none');
sql(q{SELECT pgq_set_handler('t', 'app.work(pgq_ext.claimed_job)', run_as => 'runner', idle => '10 min')});
wait_until_ran(3, 't');
sql(q{SELECT pgq_rename_queue('t', 'new')});
runs_ok('new', 'pgq_rename_queue keeps the handler, also in a worker that idles');
is(sql(q{SELECT queue, state FROM pgq_ext.handler WHERE queue IN ('t', 'new')}), 'new|idle', '... and the view has the new name');
sql(q{SELECT pgq_create_queue('bare')});
sql(q{BEGIN; SELECT pgq_rename_queue('new', 'x'), pgq_rename_queue('bare', 'new'), pgq_rename_queue('x', 'bare'); COMMIT});
sql(q{TRUNCATE app.ran; SELECT pgq_enqueue('new', '"not to be called"')});
sql(q{SELECT pgq_enqueue('bare', '1')});
wait_until_ran(1, 'bare');
is(has_run('new'), '0', 'two queues exchange their names: the handler goes with its queue');

# ---- pause and resume ----

create_queue($node, 'p');
set_handler('p', q{run_as => 'runner', idle => '10 min'});
runs_ok('p', 'a handler');
for my $running (0, 1)
{
	my $who = $running ? 'a worker that runs' : 'a worker that idles';
	sql('TRUNCATE app.ran');
	if ($running)
	{
		close_gate();
		sql(q{SELECT pgq_enqueue('p', to_jsonb(i)) FROM generate_series(1, 3) i});
		wait_at_gate(1);
	}
	sql(q{SELECT pgq_pause_handler('p')});
	$running ? open_gate() : sql(q{SELECT pgq_enqueue('p', to_jsonb(i)) FROM generate_series(1, 3) i});
	wait_for_state('p', 'paused');
	wait_for($node, q{running = 0 FROM pgq_ext.handler WHERE queue = 'p'});
	wait_for_look();
	is(sql(q{SELECT count(*), (SELECT max(attempts) FROM pgq_ext.job_status) FROM app.ran}), $running . '|0', "pgq_pause_handler, $who: " . ($running ? 'the call ends, and is the last' : 'no call begins'));
	set_handler('p', q{run_as => 'runner', idle => '10 min'});
	wait_for_look();
	is(sql(q{SELECT count(*), (SELECT state FROM pgq_ext.handler WHERE queue = 'p') FROM app.ran}), $running . '|paused', '... pgq_set_handler does not resume it');
	sql(q{SELECT pgq_resume_handler('p')});
	wait_until_ran(3, 'p');
	pass('... pgq_resume_handler does');
}

# After a batch has failed, its jobs run one by one.
create_queue($node, 'b');
set_handler('b', q{run_as => 'runner', batch => 5, timeout => '10 min'});
sql('TRUNCATE app.ran');
close_gate();
sql(q{SELECT pgq_enqueue('b', i) FROM unnest('{1,2,3,4,"\\"bad\\""}'::jsonb[]) i});
wait_at_gate(1);
sql(q{SELECT pgq_pause_handler('b')});
wait_for_state('b', 'paused');
open_gate();
wait_for($node, q{running = 0 FROM pgq_ext.handler WHERE queue = 'b'});
is(sql(q{SELECT count(*), (SELECT max(attempts) FROM pgq_ext.job_status WHERE queue = 'b') FROM app.ran}), '0|0', 'a batch fails when the handler is paused: none of its jobs is called again');
sql(q{SELECT pgq_resume_handler('b')});
wait_until_ran(4, 'b');
pass('... until it is resumed');
sql(q{SELECT pgq_drop_queue('b', force => true)});

# ---- TRUNCATE ----

# The scheduler looks at all handlers at once when one is set, and then a second later.
{
	create_queue($node, 'cut');
	my $shortest = 60;
	# On a busy machine a look at once may take longer, too, but not each time.
	for (1 .. 60)
	{
		set_handler('cut');
		wait_for_look();
		set_handler('cut');
		wait_for($node, q{count(*) = 1 FROM pgq_ext.handler_entries() JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'cut'});
		my $begin = sql('TRUNCATE pgq_ext.queue_handler; SELECT extract(epoch FROM clock_timestamp())');
		wait_for($node, 'count(*) = 0 FROM pgq_ext.handler_entries()');
		my $took = sql('SELECT extract(epoch FROM clock_timestamp())') - $begin;
		$shortest = $took if $took < $shortest;
		last if $shortest < 0.6;
	}
	cmp_ok($shortest, '<', 0.6, 'TRUNCATE of the table of handlers is noticed when it commits');
}

# ---- twenty jobs in a row that fail in the same way ----

create_queue($node, 'bad', 'max_attempts => 1');
set_handler('bad', q{run_as => 'runner'});
my $fail = sub { my ($n) = @_; sql(qq{SELECT count(pgq_enqueue('bad', '"bad"')) FROM generate_series(1, $n)}); return };
my $wait_for_dead = sub { my ($n) = @_; wait_for($node, "count(*) = $n FROM pgq_ext.dead_job"); return };
$fail->(19);
$wait_for_dead->(19);
wait_for($node, q{failures = 19 FROM pgq_ext.handler WHERE queue = 'bad'});
is(sql(q{SELECT next_try_at IS NULL, last_error FROM pgq_ext.handler WHERE queue = 'bad'}), 't|a bad job', '19 jobs have failed: the handler goes on');
# The rest lasts for 1 s. On a busy machine it may be over before the test looks; each further failure doubles it.
my ($failed, $rests) = (19, 'f');
while ($rests ne 't' && $failed < 26)
{
	$fail->(1);
	$failed++;
	wait_for($node, "failures = $failed FROM pgq_ext.handler WHERE queue = 'bad'");
	$rests = sql(q{SELECT next_try_at > clock_timestamp() FROM pgq_ext.handler WHERE queue = 'bad'});
}
is($rests, 't', '20 jobs have failed: the next call waits');
$fail->(2);
$failed += 2;
$wait_for_dead->($failed);
pass('... and comes; the jobs count as failed');
sql(q{SELECT pgq_enqueue('bad', '1')});
wait_until_ran(1, 'bad');
wait_for($node, 'calls = ' . ($failed + 1) . q{ AND next_try_at IS NULL FROM pgq_ext.handler WHERE queue = 'bad'});
pass('one success ends that');
$fail->(19);
$failed += 19;
$wait_for_dead->($failed);
wait_for($node, "failures = $failed FROM pgq_ext.handler WHERE queue = 'bad'");
is(sql(q{SELECT next_try_at IS NULL, state FROM pgq_ext.handler WHERE queue = 'bad'}), 't|idle', '... the next 19 that fail do not wait');

is(sql('SELECT * FROM pgq_check()'), '', 'pgq_check() finds nothing');
done_testing();
