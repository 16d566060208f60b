# Shared by the TAP tests: servers with the extension, and polling. Re-exports Session.pm.
package PgqTest;
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Session;
use Exporter 'import';
use Time::HiRes qw(clock_gettime usleep CLOCK_MONOTONIC);

our @EXPORT = (@Session::EXPORT, qw(pgq_node in_one_session wait_for workers parallel_setting scheduler_pid wait_for_scheduler wait_until_counted wait_until_up wait_until_down old_version blocks_of
  sqlstate user_functions create_queue drain monotonic seconds_since waits_as stop_and_start without_ended_schedulers));

# Seconds of a clock that is never set, and seconds since such a time.
sub monotonic     { return clock_gettime(CLOCK_MONOTONIC) }
sub seconds_since { return monotonic() - $_[0] }

# Copies $ENV{INITDB_TEMPLATE} instead of running initdb, which is ten times as fast. From PostgreSQL 17 on the module
# does so itself, and does not call initdb with these arguments.
{
	no warnings 'redefine';
	my $run = \&PostgreSQL::Test::Utils::system_or_bail;
	*PostgreSQL::Test::Utils::system_or_bail = sub {
		my @command = @_;
		@command = ('cp', '-RPp', $ENV{INITDB_TEMPLATE}, $1) if $ENV{INITDB_TEMPLATE} && "@command" =~ /^initdb -D (\S+) -A trust -N$/;
		return $run->(@command);
	};
}

# Checks that a test which test/run.sh (is_quick) takes for one with a single server starts no second one.
if ($ENV{PGQ_ONE_SERVER})
{
	no warnings 'redefine';
	my $new = \&PostgreSQL::Test::Cluster::new;
	my $servers = 0;
	*PostgreSQL::Test::Cluster::new = sub {
		die 'this test has a second server, which test/run.sh does not see' if $servers++;
		goto &$new;
	};
}

# pgq_node NAME, conf => TEXT, init => {...}, new => {...}: returns a running server whose database postgres has the
# extension
sub pgq_node
{
	my ($name, %options) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name, %{ $options{new} // {} });
	$node->init(%{ $options{init} // {} });
	$node->append_conf('postgresql.conf', $options{conf} // '');
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION pgq_ext');
	return $node;
}

# ---- sessions that stay ----

# A new psql and a new backend for each statement would take most of the time of a test, so safe_psql sends what it is given in a
# session that stays, one for each database of a node. What is about sessions or transactions gets a psql of its own, as do statements
# with options, or about databases, which nobody may be connected to. If the session has been lost since the last statement, by a
# restart for example, another one begins.
my $own_psql = qr/\bsession|LISTEN|\bLOAD\b|\bPREPARE\b|pg_backend_pid|application_name|advisory|START\s+TRANSACTION|
	\bBEGIN\s*(?:;|ISOLATION|TRANSACTION|WORK|READ|\z)|\bDATABASE|^\s*\\|pg_terminate_backend|pg_cancel_backend|pgq_(?:try_)?lock/xmi;
# What leaves only what DISCARD ALL removes.
my $discarded = qr/(?:^|;)\s*(?:RE)?SET\b|set_config|\bTEMP/mi;
my %stays;
my $owner = $$;
my $lost = qr/^(?:psql:.*?: )?(?:FATAL|PANIC):|connection to server was lost|server closed the connection/m;
my $with_psql = \&PostgreSQL::Test::Cluster::safe_psql;

# Ends the sessions of a node, or of all.
sub end_sessions
{
	my ($node) = @_;
	end_session(delete $stays{$_}) for grep { !$node || /^\Q$node\E / } keys %stays;
	return;
}

# in_session NODE, DATABASE, SQL, NAME, COMMAND: returns (output, errors); NAME tells sessions apart, COMMAND is what a new one begins with
sub in_session
{
	my ($node, $db, $sql, $name, $command) = @_;
	$sql .= "\n;\nDISCARD ALL" if ($name // '') !~ /^own/ && $sql =~ $discarded;
	my $key = join ' ', $node, $db, $name // '', map { $ENV{$_} // '' } qw(PGUSER PGOPTIONS PGAPPNAME PGCLIENTENCODING PGTZ);
	my ($out, $errors);
	if ($stays{$key})
	{
		# In one go. If the session has been lost, psql ends before it comes to the second statement.
		($out, $errors) = eval { ask($stays{$key}, "SELECT 'alive'\n;\n$sql") };
		die $@ if $@ =~ /^no answer in time/; # it may have been carried out, and must not be sent again
		end_session(delete $stays{$key}) if !defined $out || $out !~ s/\Aalive\n?//;
	}
	if (!$stays{$key})
	{
		$stays{$key} = session($node, $db);
		ask($stays{$key}, $command) if $command;
		($out, $errors) = ask($stays{$key}, $sql);
	}
	end_session(delete $stays{$key}) if $errors =~ $lost;
	return ($out, $errors);
}

sub answer_or_die
{
	my ($out, $errors) = @_;
	die $errors if $errors =~ $lost || $errors =~ /^(?:psql:.*?: )?ERROR:/m;
	return $out;
}

# Succeeds for a statement that leaves nothing in its session.
sub is_for_all { my ($db, $sql) = @_; return $$ == $owner && $db =~ /^\w+$/ && $sql !~ $own_psql }

{
	no warnings 'redefine';
	my $stop = \&PostgreSQL::Test::Cluster::stop;
	*PostgreSQL::Test::Cluster::stop = sub { end_sessions($_[0]); return $stop->(@_) };
	my $psql = \&PostgreSQL::Test::Cluster::psql;
	*PostgreSQL::Test::Cluster::psql = sub {
		end_sessions($_[0]) if $_[2] =~ /\bDATABASE/i;
		return $psql->(@_);
	};
	*PostgreSQL::Test::Cluster::safe_psql = sub {
		my ($node, $db, $sql, %options) = @_;
		return $with_psql->(@_) if %options || !is_for_all($db, $sql);
		return answer_or_die(in_session($node, $db, $sql));
	};
}

END
{
	my $status = $?;
	end_sessions() if $$ == $owner;
	$? = $status;
}

# Returns a function that sends any SQL in a session of its own, which stays with all that is set in it, and returns the answer, or dies
# of an error as safe_psql does. Without SQL it ends its session.
my $own_sessions = 0;
sub in_one_session
{
	my ($node, $db) = @_;
	my $name = 'own ' . ++$own_sessions;
	return sub {
		my ($sql) = @_;
		return answer_or_die(in_session($node, $db // 'postgres', $sql, $name)) if defined $sql;
		end_session(delete $stays{$_}) for grep { / \Q$name\E / } keys %stays;
		return;
	};
}

# Options of a node to be upgraded: oldinstall in the environment is the installation of another version (test/run.sh
# pg_upgrade).
sub old_version { return $ENV{oldinstall} ? (install_path => $ENV{oldinstall}) : () }

# Returns the code blocks of a section of a page, in that language.
sub blocks_of
{
	my ($page, $heading, $language) = @_;
	my ($section) = PostgreSQL::Test::Utils::slurp_file($page) =~ /^## \Q$heading\E\n(.*?)(?=^## |\z)/ms;
	return $section =~ /^```$language\n(.*?)^```$/msg;
}

# Creates a queue that retries soon, without jitter; $options: more options.
sub create_queue
{
	my ($node, $queue, $options, $db) = @_;
	$options = ", $options" if $options;
	$options //= '';
	$node->safe_psql($db // 'postgres',
		"SELECT pgq_create_queue('$queue', backoff_base => '100 ms', backoff_jitter => 0 $options)");
	return;
}

# ---- polling ----

# What the server's workers are doing, for the message of a wait in vain.
sub workers_of
{
	my ($node, $db) = @_;
	my @found;
	for my $query (
		q{SELECT backend_type, pid, state, wait_event, xact_start, query FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()},
		q{SELECT locktype, relation::regclass, pid, mode, granted FROM pg_locks WHERE pid IS DISTINCT FROM pg_backend_pid() AND mode <> 'AccessShareLock' AND locktype <> 'virtualxid'},
		q{SELECT s FROM pgq_ext.segment s WHERE state <> 'empty' OR held_by <> ''},
		q{SELECT d FROM pgq_ext.duty d WHERE failures > 0},
		q{SELECT l FROM pgq_ext.lease l LIMIT 20})
	{
		push @found, eval { (in_session($node, $db, $query))[0] } // $@;
		last if $@; # a server that does not answer would keep each of them waiting
	}
	return join "\n", @found;
}

# Polls until the condition is true, or dies.
sub wait_for
{
	my ($node, $condition, $db) = @_;
	local $SIG{PIPE} = 'IGNORE'; # the server may be restarting
	my ($out, $error);
	my $nap = 10_000;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		($out, $error) = eval { in_session($node, $db // 'postgres', "SELECT $condition") };
		$error = $@ if !defined $out;
		return if ($out // '') eq 't';
		usleep($nap);
		$nap *= 1.5 if $nap < 100_000;
	}
	die "waited in vain for: $condition\nat last it was: ${\($out // '')}\n$error" . workers_of($node, $db // 'postgres');
}

# Waits until the server has restarted by itself.
# Waits until the server has started again after the crash of a process that has been reaped (wait_until_down). A session from before the
# crash could still answer, until its process gets the postmaster's signal.
sub wait_until_up
{
	my ($node) = @_;
	end_sessions($node);
	return wait_for($node, 'NOT pg_is_in_recovery()');
}

sub workers
{
	my ($node, $type) = @_;
	return $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'pgq_ext $type'");
}

sub scheduler_pid
{
	my ($node, $db) = @_;
	$db //= 'postgres';
	return $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler' AND datname = '$db'");
}

# Returns the name of the setting that forces parallel plans, which changed in PostgreSQL 16.
sub parallel_setting
{
	my ($node) = @_;
	return $node->safe_psql('postgres', q{SELECT name FROM pg_settings WHERE name IN ('debug_parallel_query', 'force_parallel_mode')});
}

# Waits for a scheduler with a pid other than the one given, and returns its pid. Creates a queue if there is none,
# since only then a scheduler starts.
sub wait_for_scheduler
{
	my ($node, $db, $before) = @_;
	$db     //= 'postgres';
	$before //= 0;
	$node->psql($db, q{SELECT pgq_create_queue('first') WHERE NOT EXISTS (SELECT FROM pgq_ext.queue)});
	wait_for($node, "count(*) = 1 FROM pg_stat_activity
		WHERE backend_type = 'pgq_ext scheduler' AND datname = '$db' AND pid <> $before");
	return scheduler_pid($node, $db);
}

# Returns the piece of a log without the messages of PostgreSQL 19 when it ends a busy scheduler for a DROP, a RENAME
# or a copy of its database: the FATAL line, and the line of the exit if the same process has written such a FATAL
# line before.
sub without_ended_schedulers
{
	my ($node, $log) = @_;
	return $log if $node->safe_psql('postgres', 'SHOW server_version_num') < 190000;
	my (%ended, @rest);
	for my $line (split /^/, $log)
	{
		if ($line =~ /\[(\d+)\] .*FATAL:  terminating background worker "pgq_ext scheduler/) { $ended{$1} = 1 }
		elsif ($line !~ /LOG:  background worker "pgq_ext scheduler.*" \(PID (\d+)\) exited with exit code 1$/ || !$ended{$1}) { push @rest, $line }
	}
	return join '', @rest;
}

# Waits until memory knows the number of jobs: after a start it does not at once.
sub wait_until_counted
{
	my ($node, $db) = @_;
	return wait_for($node, 'bool_and(scheduled IS NOT NULL AND dead IS NOT NULL) FROM pgq_ext.queue_status', $db // 'postgres');
}

# ---- processes and errors ----

# Waits until no process has that pid.
sub wait_until_down
{
	my ($pid) = @_;
	for (1 .. 1200)
	{
		return if !kill 0, $pid;
		select(undef, undef, undef, 0.05);
	}
	die "process $pid is still there";
}

# Returns (SQLSTATE, messages); the SQLSTATE is empty if there was no error.
sub sqlstate
{
	my ($node, $sql, $db) = @_;
	$db //= 'postgres';
	my $stderr;
	if (is_for_all($db, $sql) && $sql =~ s/\$\$.*?\$\$|^\s*SET [^;]*;//gsr !~ /;\s*\S/)
	{
		(undef, $stderr) = in_session($node, $db, $sql, 'verbose', '\set VERBOSITY verbose');
	}
	else
	{
		(undef, undef, $stderr) = $node->psql($db, $sql, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	}
	my ($state) = $stderr =~ /(?:ERROR|FATAL):  ([0-9A-Z]{5}): /;
	return wantarray ? ($state // '', $stderr) : $state // '';
}

# Returns every function that users call, and (all => 1) those behind the views, as "name(null::type, ...)".
sub user_functions
{
	my ($node, %options) = @_;
	my $which = $options{all} ? '' : "AND p.proname LIKE 'pgq\\_%'";
	return split /\n/, $node->safe_psql('postgres', qq{
		SELECT format('%s(%s)', p.oid::regproc, (SELECT string_agg(format('null::%s', t::regtype), ', ' ORDER BY n)
			FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY a(t, n)))
		FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
		WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgq_ext')
		  AND p.prolang = (SELECT oid FROM pg_language WHERE lanname = 'c') AND p.prorettype <> 'trigger'::regtype $which
		ORDER BY 1});
}

# ---- work ----

# Claims and acknowledges jobs until none is left. Returns their ids in the order in which they were handed out. Rows that were
# locked until now are set aside for a moment: a claim that meets too many of them fails, and is repeated.
sub drain
{
	my ($node, $queue, $db) = @_;
	my @ids;
	for (1 .. 1000)
	{
		my $got = eval { $node->safe_psql($db // 'postgres', qq{
			WITH c AS MATERIALIZED (SELECT * FROM pgq_claim('$queue', 1000, wait => '100 ms'))
			SELECT job_id FROM (SELECT job_id, pgq_ack(job_id, lease) FROM c) done}) };
		if (!defined $got)
		{
			die $@ if $@ !~ /are locked by other transactions/;
			select undef, undef, undef, 0.1;
			next;
		}
		push @ids, split /\n/, $got;
		last if $got eq '' && $node->safe_psql($db // 'postgres',
			"SELECT count(*) = 0 FROM pgq_ext.job_status WHERE queue = '$queue'") eq 't';
	}
	return @ids;
}

# stop_and_start NODE, MODE: a restart in that mode; the arguments of the node's restart() differ between versions
sub stop_and_start
{
	my ($node, $mode) = @_;
	$node->stop($mode);
	$node->start;
	return;
}

# A condition for wait_for: one process waits with that wait event, which servers before PostgreSQL 17 do not name.
sub waits_as
{
	my ($name) = @_;
	return qq{count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Extension'
		AND wait_event = CASE WHEN current_setting('server_version_num')::int < 170000 THEN 'Extension' ELSE '$name' END};
}

1;
