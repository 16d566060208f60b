# Each alert of monitoring/alerts.yml once, with the real exporter and Prometheus, on a server under load: what it is for is
# brought about, the alert fires, for that alone, and when the cause is gone it resolves. Every query of the dashboard is asked
# meanwhile. A minute of the rules takes $minute seconds here (shorter in MonitorTest.pm); nothing else of them is changed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use IPC::Run;
use JSON::PP;
use Time::HiRes qw(time);
use PgqTest;
use MonitorTest;

my $node = pgq_node('main', conf => "pgq_ext.max_locks = 20\nmax_connections = 60\npgq_ext.segment_dead_rows = 0\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
$node->command_ok([ 'psql', '-Xqd', $node->connstr('postgres'), '-f', 'monitoring/role.sql' ], 'the role is made');

# ---- clients ----

my $scripts = PostgreSQL::Test::Utils::tempdir();
my %beside;

# Does that again and again, with a pause, until stop_doing.
sub keep_doing
{
	my ($name, $pause, $sql) = @_;
	append_to_file("$scripts/$name", "$sql;\n\\sleep $pause ms\n");
	$beside{$name} = start_beside("$PostgreSQL::Test::Utils::log_path/pgbench_$name.log",
		'pgbench', '-n', '-T', 600, '-f', "$scripts/$name", '-h', $node->host, '-p', $node->port, 'postgres');
	return;
}

sub stop_doing { stop_program(delete $beside{ $_[0] }); return }

sub work { return "SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('$_[0]', $_[1])" }

# As restored from a dump of ten minutes ago.
sub old_job
{
	my ($queue) = @_;
	return "INSERT INTO pgq_ext.job (queue_id, priority, run_at, enqueued_at, payload)
		SELECT queue_id, 0, now() - interval '10 min', now() - interval '10 min', '1' FROM pgq_ext.queue WHERE queue = '$queue'" =~ s/\s+/ /gr;
}

# Creates the function of all handlers, or another one in its place.
sub handler { return "CREATE OR REPLACE FUNCTION handle(job pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS \$f\$ BEGIN $_[0] END \$f\$;" }

# ---- the causes ----

my %hold;    # sessions, and what is to be put back
my $poison = q{CREATE INDEX poison ON pgq_ext.job_0 ((1 / (CASE WHEN queue_id = %s AND attempts > 0 THEN 0 ELSE 1 END)))};

# alert, its subject (queue or whatever it is about), begin, end
my @causes = (
	[ PgqQueueLate => 'late', sub {
		sql(q{SELECT pgq_enqueue('late', '1')});
		$hold{late} = sql(q{SELECT job_id || ',' || lease FROM pgq_claim('late', lease_time => '1 h')});
		sql(old_job('late'));
		keep_doing('late', 300, work('late', 1000));
	}, sub {
		# One that has waited for long, of many, is no PgqWaitLong.
		sql(q{SELECT count(pgq_enqueue('late', '1')) FROM generate_series(1, 200); SELECT pgq_alter_queue('late', concurrency => 0)});
		sql("SELECT pgq_ack($hold{late})");
		wait_for($node, q{acked = 202 FROM pgq_ext.queue_stats WHERE queue = 'late'});
		stop_doing('late');
	} ],
	[ PgqWaitLong => 'begun_late', sub {
		keep_doing('begun_late', 300, old_job('begun_late') . ";\n" . work('begun_late', 10));
	}, sub { stop_doing('begun_late'); drain($node, 'begun_late') } ],
	[ PgqNobodyWorks => 'nobody', sub { sql(q{SELECT pgq_enqueue('nobody', '1')}) }, sub { drain($node, 'nobody') } ],
	[ PgqBacklogGrows => 'grows', sub {
		sql(q{SELECT count(pgq_enqueue('grows', '1')) FROM generate_series(1, 1500)});
		keep_doing('grows', 200, q{SELECT count(pgq_enqueue('grows', '1')) FROM generate_series(1, 50);} . "\n" . work('grows', 1));
	}, sub { stop_doing('grows'); drain($node, 'grows') } ],
	[ PgqQueueNearlyFull => 'full', sub {
		sql(q{SELECT count(pgq_enqueue('full', '1', delay => '1 h')) FROM generate_series(1, 8);
			SELECT pgq_enqueue('full', '1', after => ARRAY[(SELECT min(job_id) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'full')])});
	}, sub { sql(q{SELECT pgq_alter_queue('full', max_depth => 100)}) } ],
	[ PgqJobsFail => 'failing', sub {
		sql(q{SELECT count(pgq_enqueue('failing', '1')) FROM generate_series(1, 3)});
		keep_doing('failing', 300, q{SELECT count(pgq_fail(job_id, lease, retry_in => '0')) FROM pgq_claim('failing')});
	}, sub { stop_doing('failing'); drain($node, 'failing') } ],
	[ PgqDeadLetters => 'dead', sub {
		sql(q{SELECT pgq_enqueue('dead', '1')});
		keep_doing('dead', 300, q{SELECT count(pgq_fail(job_id, lease, retry => false)) FROM pgq_claim('dead')});
	}, sub { stop_doing('dead') } ],
	[ PgqLeasesLost => 'died', sub {
		keep_doing('died', 200, q{SELECT count(pgq_enqueue('died', '1')) FROM generate_series(1, 200);} . "\n" . work('died', 200));
		wait_for($node, q{acked > 2000 FROM pgq_ext.queue_stats WHERE queue = 'died'});
		sql(q{SELECT count(pgq_enqueue('died', '1')) FROM generate_series(1, 400)});
		is(sql(q{SELECT count(*) FROM pgq_claim('died', 50, lease_time => '1 s')}), 50, 'a worker dies with its jobs');
	}, sub { stop_doing('died'); drain($node, 'died') } ],
	[ PgqLeasesTooShort => 'short', sub {
		keep_doing('short', 2000, q{SELECT count(pgq_enqueue('short', '1')) FROM generate_series(1, 2);} . "\n"
			. q{SELECT count(*) FROM pgq_claim('short');} . "\n" . work('short', 2));
	}, sub { stop_doing('short'); drain($node, 'short') } ],
	[ PgqRepaired => 'forgotten_by_force', sub {
		sql(q{SELECT count(*) FROM pgq_claim('forgotten_by_force')});
		sql(q{BEGIN; LOCK TABLE pgq_ext.job; ALTER TABLE pgq_ext.job_0 DISABLE TRIGGER job_changed;
			INSERT INTO pgq_ext.job (queue_id, payload) SELECT queue_id, '1' FROM pgq_ext.queue WHERE queue = 'forgotten_by_force';
			ALTER TABLE pgq_ext.job_0 ENABLE ALWAYS TRIGGER job_changed; COMMIT});
		keep_doing('forgotten', 300, work('forgotten_by_force', 1));
	}, sub { stop_doing('forgotten') } ],
	[ PgqScheduleFails => 'nightly', sub {
		sql(q{SELECT pgq_schedule('nightly', 'every 1 s', 'gone'); SELECT pgq_drop_queue('gone', force => true)});
	}, sub { sql(q{SELECT pgq_unschedule('nightly')}) } ],
	[ PgqHandlerSuspended => 'suspended', sub { sql('ALTER ROLE away NOLOGIN') }, sub { sql('ALTER ROLE away LOGIN') } ],
	[ PgqHandlerFails => 'unhandled', sub {
		sql(handler('IF job.payload = $$1$$ THEN RAISE $$no$$; END IF;') . q{SELECT count(pgq_enqueue('unhandled', '1')) FROM generate_series(1, 30)});
	}, sub { sql(handler('')) } ],
	[ PgqBoundNear => 'locks and runs held', sub {
		$hold{locks} = session($node);
		ask($hold{locks}, q{SELECT count(pgq_lock('lock' || i, session_bound => true)) FROM generate_series(1, 17) i});
	}, sub { end_session(delete $hold{locks}) } ],
	# These locks are beyond the own share of their database, too.
	[ PgqBoundNear => 'locks and runs beyond the own shares of databases', sub { }, sub { } ],
	[ PgqHealthFailed => 'tables', sub { sql('CREATE INDEX half_made ON ONLY pgq_ext.job (priority)') }, sub { sql('DROP INDEX pgq_ext.half_made') } ],
	[ PgqHealthWarns => 'retention', sub {
		# What somebody has locked cannot be deleted when its time has come.
		$hold{kept} = session($node);
		ask($hold{kept}, q{BEGIN; SELECT count(*) FROM (SELECT FROM pgq_ext.dead_job WHERE died_at < now() - interval '19 days' FOR UPDATE) d});
		sql(q{SELECT pgq_alter_queue('kept', keep_dead => '1 day')});
	}, sub { sql(q{SELECT pgq_alter_queue('kept', keep_dead => '30 days')}); end_session(delete $hold{kept}) } ],
	[ PgqDutyFails => 'lost leases', sub {
		sql(sprintf $poison, sql(q{SELECT queue_id FROM pgq_ext.queue WHERE queue = 'poisoned'}));
		sql(q{SELECT pgq_enqueue('poisoned', '1')});
		sql(q{SELECT count(*) FROM pgq_claim('poisoned', lease_time => '1 s')});
		keep_doing('poisoned', 500, work('poisoned', 1));
	}, sub { sql('DROP INDEX pgq_ext.poison') } ],
	[ PgqScrapeFails => '', sub { sql('REVOKE SELECT ON pgq_ext.segment FROM pg_monitor') },
		sub { sql('GRANT SELECT ON pgq_ext.segment TO pg_monitor') } ],
);

# Those that others would notice, one after the other.
my ($exporter, $launcher);
my @outages = (
	[ PgqSchedulerDown => 'scheduler', sub {
		$launcher = sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgq_ext launcher'});
		kill STOP => $launcher;
		sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'pgq_ext scheduler'});
	}, sub { kill CONT => $launcher; undef $launcher } ],
	[ PgqExporterDown => '', sub { stop_program($exporter) }, sub { $exporter = start_exporter($node, 'postgres') } ],
	[ PgqServerDown => '', sub { stop_doing($_) for sort keys %beside; $node->stop }, sub { $node->start } ],
);
END { kill CONT => $launcher if $launcher }

# ---- the firing log ----

my $start = time;
my $patience = $PostgreSQL::Test::Utils::timeout_default; # seconds
my (%fired, %firing, @log);

sub note_down { push @log, sprintf '%6.1f s  %s', time - $start, $_[0]; return }

sub name_of
{
	my ($labels) = @_;
	my ($subject) = grep { defined } @$labels{qw(schedule queue name check duty)};
	return join ' ', $labels->{alertname}, $subject // ();
}

# What fires now; what has begun or ended since the last look goes to the log.
sub look
{
	my %now = map { (name_of($_->{labels}) => 1) } grep { $_->{state} eq 'firing' } @{ ask_prometheus('alerts')->{alerts} };
	note_down("fires     $_") for grep { !$firing{$_} } sort keys %now;
	note_down("resolved  $_") for grep { !$now{$_} } sort keys %firing;
	%firing = %now;
	%fired = (%fired, %now);
	return \%firing;
}

sub alert_of { my ($cause) = @_; return $cause->[1] eq '' ? $cause->[0] : "$cause->[0] $cause->[1]" }
sub begin_cause { my ($cause) = @_; note_down("cause     " . alert_of($cause)); $cause->[2]->(); return }
sub end_cause   { my ($cause) = @_; note_down("cured     " . alert_of($cause)); $cause->[3]->(); return }

# However it ends.
END
{
	my $status = $?;
	diag(join "\n", 'The firing log:', @log) if @log;
	$? = $status;
}

# What PromQL finds a true number for.
sub holds { return @{ query($_[0]) } > 0 }

# ---- the dashboard ----

my $dashboard = decode_json(slurp_file('monitoring/dashboard.json'));

# What Grafana does before it asks.
sub substituted
{
	my ($expr) = @_;
	$expr =~ s/\$__rate_interval/1m/g;
	$expr =~ s/\$(?:datname|queue)\b/.*/g;
	unlike($expr, qr/\$/, 'no other variable') if $expr =~ /\$/;
	return $expr;
}

# "{{queue}}: repaired" => "mail: repaired"
sub legend
{
	my ($format, $labels) = @_;
	return $format =~ s/\{\{(\w+)\}\}/$labels->{$1} \/\/ ''/ger;
}

sub check_dashboard
{
	for my $panel (grep { $_->{targets} } @{ $dashboard->{panels} })
	{
		for my $target (@{ $panel->{targets} })
		{
			my $result = query(substituted($target->{expr}));
			my @wrong = grep { $_->{value}[1] =~ /NaN|Inf/ } @$result;
			ok(@$result && !@wrong, "panel \"$panel->{title}\", $target->{legendFormat}: " . @$result . ' series')
			  or diag($target->{expr}, "\n", encode_json(\@wrong));
			note(sprintf '%14.6g  %s', $_->{value}[1], legend($target->{legendFormat}, $_->{metric})) for @$result;
		}
	}
	for my $variable (grep { $_->{type} eq 'query' } @{ $dashboard->{templating}{list} })
	{
		my ($series, $label) = $variable->{definition} =~ /^label_values\((.*), (\w+)\)$/ or die $variable->{definition};
		my $values = ask_prometheus("label/$label/values", 'match[]' => substituted($series));
		ok(scalar @$values, "variable $variable->{name}: " . @$values . ' values');
	}
	ok(holds(substituted($_->{expr})), 'annotation') for @{ $dashboard->{annotations}{list} };
	return;
}

# ---- the story ----

# A counter has to be there, at 0, before it can grow.
create_queue($node, $_) for qw(busy idle tick asleep begun_late nobody grows dead forgotten_by_force gone kept poisoned);
create_queue($node, $_, 'max_attempts => 1000') for qw(failing died);
create_queue($node, 'short', q{max_attempts => 1000, lease_time => '1 s'});
create_queue($node, 'late', 'concurrency => 1');
create_queue($node, $_, 'max_attempts => 1000') for qw(handled unhandled suspended);
sql(q{CREATE ROLE hand LOGIN; CREATE ROLE away LOGIN; GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO hand, away});
sql(handler('') . q{SELECT pgq_set_handler(queue, 'handle(pgq_ext.claimed_job)', run_as => CASE queue WHEN 'suspended' THEN 'away' ELSE 'hand' END::regrole)
	FROM unnest('{handled,unhandled,suspended}'::text[]) AS queue});
create_queue($node, 'full', 'max_depth => 10');
sql(q{SELECT pgq_schedule('ticking', 'every 2 s', 'tick')});
sql(q{SELECT pgq_enqueue('kept', '1'); SELECT pgq_fail(job_id, lease, retry => false) FROM pgq_claim('kept');
	UPDATE pgq_ext.dead_job SET died_at = now() - interval '20 days'});
keep_doing('busy', 100, q{SELECT count(pgq_enqueue('busy', '1')) FROM generate_series(1, 20);} . "\n" . work('busy', 20));
keep_doing('failing_now_and_then', 3000, q{SELECT count(pgq_fail(job_id, lease, retry_in => '0')) FROM pgq_claim('busy')});
keep_doing('tick', 500, work('tick', 10));
keep_doing('handled', 500, q{SELECT pgq_enqueue('handled', '0')});
keep_doing('asleep', 100, q{SELECT count(*) FROM pgq_claim('asleep', wait => '5 s')});
$exporter = start_exporter($node, 'postgres');
start_prometheus(shorter(slurp_file('monitoring/alerts.yml')));
# As long as the longest look back of a rule.
until_true($patience, 'a look back', sub { look(); holds('count_over_time(pgq_queue_stats_acked_total{queue="busy"}[10m]) >= ' . 10 * $minute / $scrape_interval) });
is(join(', ', sort keys %fired), '', 'under load alone nothing fires');

begin_cause($_) for @causes;
my (@begun, $looked) = @causes;
until_true($patience, 'all to fire and resolve', sub {
	look();
	if (!$looked && $fired{'PgqDeadLetters dead'} && $fired{'PgqLeasesTooShort short'}) { $looked = 1; check_dashboard() }
	my @cured = grep { $fired{ alert_of($_) } } @begun;
	@begun = grep { !$fired{ alert_of($_) } } @begun;
	end_cause($_) for @cured;
	return !@begun && !%firing;
});

for my $outage (@outages)
{
	begin_cause($outage);
	until_true($patience, "$outage->[0] to fire", sub { look()->{ alert_of($outage) } });
	end_cause($outage);
	until_true($patience, "$outage->[0] to resolve", sub { !%{ look() } });
}

# Each fires by its own cause, and none by that of another.
for my $cause (@causes, @outages)
{
	my $alert = alert_of($cause);
	ok(delete $fired{$alert}, "$alert fires and resolves");
}
# A scrape can come when attempts have failed, and the calls are not counted yet.
delete $fired{'PgqJobsFail unhandled'};
is(join(', ', sort keys %fired), '', '... and no other does');
my %caused = map { ($_->[0] => 1) } @causes, @outages;
is(join(', ', sort keys %caused), join(', ', sort map { $_->{name} } map { @{ $_->{rules} } } @{ ask_prometheus('rules')->{groups} }), '... and that is all of them');
done_testing();
