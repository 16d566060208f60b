# pgq-top in a real terminal, which tmux provides; and its single output for pipes and scripts.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use JSON::PP;
use PgqTest;

my $node = pgq_node('main');
sub sql { return $node->safe_psql('postgres', $_[0]) }

create_queue($node, 'mail', "max_attempts => 1, lease_time => '1 hour'");
create_queue($node, 'orders');
sql(q{SELECT pgq_enqueue('mail', '1') FROM generate_series(1, 20);
	SELECT pgq_fail(job_id, lease, E'\u00fc is "no"\n\x1b[2Jname') FROM pgq_claim('mail')});
my ($letter) = sql('SELECT job_id FROM pgq_ext.dead_job');
my ($job)    = sql(q{SELECT job_id FROM pgq_claim('mail', worker => E'tab\there')});

# A handler that is paused before it has called anything.
sql(q{CREATE ROLE hand LOGIN; GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO hand;
	CREATE FUNCTION handle(job pgq_ext.claimed_job) RETURNS void LANGUAGE sql AS ''});
sql(q{BEGIN; SELECT pgq_create_queue('zip'), pgq_set_handler('zip', 'handle(pgq_ext.claimed_job)', run_as => 'hand', workers => 3), pgq_pause_handler('zip'); COMMIT});
wait_for($node, q{state = 'paused' AND since IS NOT NULL FROM pgq_ext.handler});

# An open batch, and one that has failed and whose callback cannot be enqueued.
my ($open)    = sql('SELECT pgq_create_batch()');
my ($failing) = sql('SELECT pgq_create_batch()');
sql(qq{UPDATE pgq_ext.job_batch SET failed_at = clock_timestamp(), failures = 1, last_error = 'no queue', due_at = clock_timestamp() + interval '1 hour' WHERE batch_id = $failing});
my ($me) = sql('SELECT current_user');

# Where the server has the view health it is used; otherwise one that is like it.
sql(q{DO $$ BEGIN
		IF to_regclass('pgq_ext.health') IS NULL THEN
			CREATE VIEW pgq_ext.health AS SELECT 'library'::text AS "check", 'ok'::text AS status, NULL::text AS detail,
				NULL::text AS hint, now() AS checked_at;
		END IF;
	END $$});
sql('CREATE ROLE nobody LOGIN');
sql($_) for grep { /CREATE ROLE monitor / } blocks_of('docs/operations.md', 'Roles', 'sql');
# That role may read all that the program shows; this one may not.
sql('REVOKE SELECT (last_error) ON pgq_ext.dead_job FROM monitor');

my @connection = ('-h', $node->host, '-p', $node->port, '-d', 'postgres');

# ---- once ----

# (status, standard output, errors)
sub answer_of
{
	my (@arguments) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'pgq-top', @arguments ], '<', \undef, '>', \$out, '2>', \$err,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return ($? >> 8, $out, $err);
}

my ($status, $out, $err) = answer_of(@connection, '--once');
is("$status $err", '0 ', '--once: all is shown');
like($out, qr/^  mail +active +18 +0 +0 +1 +1 /m, '... queues');
like($out, qr/^ +$job mail .* tab\\there$/m, '... jobs, and a worker whose name does nothing');
like($out, qr/^ +$letter mail .*is "no"\\n\\x1b\[2Jname$/m, '... dead letters, and an error that does nothing');
like($out, qr/^  (ok|WARN|FAIL) +\w+/m, '... health');
my $handler = qr/^  zip +paused +\d\S* +0\/3 +0 +0 +public\.handle\(pgq_ext\.claimed_job\) hand$/m;
like($out, $handler, '... handlers');
my $batches = qr/^ +$failing callback fails +\S+ +\S+ +(59m|1h)\S* +$me +no queue\n +$open open +\S+ +$me$/m;
like($out, $batches, '... batches');
{
	local $ENV{LANG} = 'C';
	(undef, $out) = answer_of(@connection, '--once');
	unlike($out, qr/[^\x20-\x7e\n]/, 'LANG=C: ASCII only');
	like($out, qr/\\u\{fc\} is "no"/, '... the others as numbers');
}

($status, $out, $err) = answer_of(@connection, '--json', '-n', '0.1');
is("$status $err", '0 ', '--json: all is shown');
my $document = decode_json($out);
is($document->{format}, 1, '... the format has a number');
my ($mail) = grep { $_->{queue} eq 'mail' } @{ $document->{queues} };
is_deeply([ @$mail{qw(ready scheduled blocked leased dead)} ], [ 18, 0, 0, 1, 1 ], '... counts');
is($mail->{counters}{enqueued}, 20, '... counters');
is($mail->{per_second}{enqueued}, 0, '... and, after two looks, rates');
is($document->{dead_letters}[0]{error}, "\x{fc} is \"no\"\n\x1b[2Jname", '... an error as it was');
is($document->{jobs}[0]{worker}, "tab\there", '... and a worker');
my ($handled) = @{ $document->{handlers} };
is_deeply([ @$handled{qw(queue handler run_as workers running state reason seconds_to_next_try calls failures last_error)} ],
	[ 'zip', 'public.handle(pgq_ext.claimed_job)', 'hand', 3, 0, 'paused', undef, undef, 0, 0, undef ], '... and a handler');
my ($batch) = grep { $_->{batch} == $failing } @{ $document->{batches} };
is_deeply([ @$batch{qw(state maker seconds_since_close seconds_since_finish last_error)} ], [ 'open', $me, undef, undef, 'no queue' ], '... and a batch');
ok($document->{is_complete}, '... is complete');
(undef, $out) = answer_of(@connection, '--json');
is(decode_json($out)->{queues}[0]{per_second}{acked}, undef, 'after one look there are no rates');

($status, $out) = answer_of(@connection, '-U', 'monitor', '--once');
is($status, 0, 'monitor, nearly as the page on operations makes it: all is shown');
like($out, qr/^  mail +active +18 /m, '... queues');
like($out, qr/^ +$job mail /m, '... jobs');
like($out, qr/^ +$letter mail /m, '... dead letters');
like($out, qr/^  (ok|WARN|FAIL) +\w+/m, '... health');
like($out, $handler, '... handlers');
like($out, $batches, '... batches');
like($out, qr/^  role monitor may not read last_error of pgq_ext.dead_job$/m, '... and what it may not read');
($status, $out) = answer_of(@connection, '-U', 'nobody', '--json');
is($status, 3, 'nobody: not all is shown');
$document = decode_json($out);
is($document->{queues}, undef, '... no queues, which is not the same as none');
like("@{ $document->{notes} }", qr/role nobody may not look into schema pgq_ext/, '... and why');
($status, $out) = answer_of(@connection, '-d', 'template1', '--once');
is($status, 3, 'another database: not all is shown');
like($out, qr/the extension pgq_ext is not in database template1/, '... and why');
sql('CREATE DATABASE before');
$node->safe_psql('before', q{CREATE EXTENSION pgq_ext VERSION '0.1'; SELECT pgq_create_queue('q')});
($status, $out, $err) = answer_of(@connection, '-d', 'before', '--json');
is("$status $err", '0 ', 'the version before: all is shown');
is_deeply(decode_json($out)->{handlers}, [], '... that is, no handlers');
is_deeply(decode_json($out)->{batches}, [], '... and no batches');

for ([ '--bad' => 'there is no option' ], [ '-n', '0' => 'the interval is' ], [ '-h' => 'an argument is missing' ],
	[ 'a', 'b', 'c' => 'too many arguments' ], [ '--once', '--json' => 'exclude each other' ])
{
	my @arguments = @$_;
	my $message   = pop @arguments;
	($status, $out, $err) = answer_of(@arguments);
	is("$status $out", '1 ', "@arguments: status 1");
	like($err, qr/^pgq-top: .*\Q$message\E/, '... and why');
}
($status, $out, $err) = answer_of(@connection);
is($status, 1, 'no terminal: status 1');
like($err, qr/use --once or --json/, '... and what to use');
($status, $out, $err) = answer_of('-h', PostgreSQL::Test::Utils::tempdir(), '--once');
is("$status $out", '2 ', 'no server: status 2');
like($err, qr/^pgq-top: .*No such file or directory/, '... and why');
program_help_ok('pgq-top');
program_version_ok('pgq-top');

# ---- a terminal ----

my $tmux = PostgreSQL::Test::Utils::tempdir_short() . '/tmux';
$ENV{LANG} = 'C.UTF-8';

sub tmux
{
	my (@command) = @_;
	my ($text, $error) = run_command([ 'tmux', '-u', '-S', $tmux, '-f', '/dev/null', @command ]);
	return $text;
}

END
{
	my $was = $?;
	tmux('kill-server') if defined $tmux && -e $tmux;
	$? = $was;
}

sub open_top
{
	my ($environment, @arguments) = @_;
	my $command = join ' ', map { "'$_'" } 'pgq-top', @connection, '-n', '0.3', @arguments;
	tmux('new-session', '-d', '-x', 110, '-y', 24, "env -u PGAPPNAME $environment $command; echo \"ended with \$?\"; exec cat");
	return;
}

sub press { tmux('send-keys', @_); return }
sub pane { return tmux('capture-pane', '-p', @_) }

# Until the pane is like that.
sub see
{
	my ($pattern, $what) = @_;
	my $pane;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		$pane = pane();
		last if $pane =~ $pattern;
		select(undef, undef, undef, 0.1);
	}
	like($pane, $pattern, $what) or die("there is no sense in going on:\n$pane");
	return;
}

open_top('LC_ALL=C.UTF-8');
see(qr/^> mail +active +18 +0 +1 +1 /m, 'a terminal shows queues');
like(pane('-e'), qr/\e\[[\d;]*3[1-3]m/, '... with colours');
see(qr{ (?:\xe2\x96\x88)+$}m, '... and how many jobs there were');

press('p');
see(qr/^Pause queue "mail"\? 18 ready jobs wait until it is resumed.*\[y\/N\]$/m, 'pause is asked for');
press('n');
see(qr/^not done$/m, '... and not done without yes');
is(sql(q{SELECT paused FROM pgq_ext.queue WHERE queue = 'mail'}), 'f', '... as the server says');
press('p');
see(qr/\[y\/N\]$/m, '... asked for again');
press('y');
see(qr/^queue "mail" is paused$/m, '... done with yes');
is(sql(q{SELECT paused FROM pgq_ext.queue WHERE queue = 'mail'}), 't', '... as the server says');
see(qr/^> mail +paused /m, '... and to be seen');
press('r');
see(qr/^Resume .*\[y\/N\]$/m, 'resume is asked for');
press('y');
see(qr/^> mail +active /m, 'resume');

press('2');
see(qr/^> +$job mail +1 .* tab\\there/m, 'jobs in work');
press('c');
see(qr/^Cancel job $job of queue "mail"\? .*worker "tab\\there" revoked. \[y\/N\]$/m, 'cancel is asked for');
press('y');
see(qr/^job $job is ended: it was leased$/m, '... and done');
see(qr/no jobs in work/, '... and to be seen');

press('3');
see(qr/^> +$letter mail .*\\x1b\[2Jname/m, 'dead letters with their error');
press('t');
see(qr/^Retry .*\[y\/N\]$/m, 'retry is asked for');
press('y');
see(qr/^dead letter $letter of queue "mail" is a job again$/m, 'retry');
is(sql(q{SELECT count(*) FROM pgq_ext.dead_job}), '0', '... as the server says');
see(qr/no dead letters/, '... and to be seen');
press('t');
see(qr/^retry: no row is chosen$/m, 'a key without a row says so');

press('4');
see(qr/STATUS.*CHECK/, 'health');
see(qr/^> (ok|WARN|FAIL) /m, '... has checks');
press('5');
see(qr/^> zip +paused +\S+ +0\/3 /m, 'handlers');
press('6');
see(qr/^> +$failing callback fails /m, 'batches');
press('h');
see(qr/choose a row/, 'help');
press('1');
press('Down');
see(qr/^> orders/m, 'a row is chosen by the arrow keys');
press('i');
see(qr/QUEUE-.*\n  zip.*\n> orders.*\n  mail/, 'sorted the other way round');

# An error of the server: the queue goes between question and answer.
press('p');
see(qr/^Pause queue "orders"\?/m, 'asked once more');
sql(q{SELECT pgq_drop_queue('orders')});
press('y');
see(qr/^pause: ERROR: .*"orders"/m, 'an error of the server is a line');
see(qr/^> mail/m, '... and the program goes on');

tmux('resize-window', '-x', 40, '-y', 12);
see(qr/\A(?!.*JOBS OVER TIME).*^> mail.*^h help  p pause  r resume/ms, 'a small window has less in it');
is(scalar(grep { length(s{[\x80-\xbf]}{}gr) > 40 } split /\n/, pane()), 0, '... and no longer lines');
tmux('resize-window', '-x', 150, '-y', 30);
see(qr/JOBS OVER TIME/, 'a large window has more');

$node->stop;
see(qr/^NOT CONNECTED; this is .* old; trying again: \S/m, 'without a server it says so');
like(pane(), qr/^> mail/m, '... what was seen last stays');
press('p', 'y');
see(qr/^NOT CONNECTED/m, '... and what is not done then');
$node->start;
see(qr/\A(?!.*NOT CONNECTED).*^> mail/ms, '... and it goes on by itself');
like(pane(), qr/^pause: not done, there is no connection$/m, '... with what became of the key meanwhile');
is(sql(q{SELECT paused FROM pgq_ext.queue WHERE queue = 'mail'}), 'f', '... which was not done');
# A psql of ours may just be ending.
wait_for($node, q{string_agg(DISTINCT application_name, ' ') = 'pgq-top' FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()});
pass('it has a name');
press('q');
see(qr/ended with 0/, 'q ends it with 0');
tmux('kill-server');
# The next one is another server: that one may just be ending.
$tmux .= '2';

# ---- a role that may only look, and a poor terminal ----

open_top('LC_ALL=C NO_COLOR=1', '-U', 'monitor');
see(qr/^> mail +active /m, 'monitor: queues');
see(qr/^\(p pause\)  \(r resume\)  \(d redrive\)  /m, '... and keys in parentheses');
press('p');
see(qr/^pause: role monitor may not execute pgq_pause_queue$/m, '... that say why');
unlike(pane('-e'), qr/\e\[[\d;]*3[0-7]m/, 'NO_COLOR: no colours');
unlike(pane(), qr/[^\x20-\x7e\n]/, 'LC_ALL=C: ASCII only');
see(qr/ #+$/m, '... how many jobs there were, too');
tmux('send-keys', 'C-c');
see(qr/ended with 0/, 'Ctrl-C ends it, too');

$node->stop;
done_testing();
