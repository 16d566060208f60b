# Sends damaged HTTP requests to pgq-web, from four processes at a time, and looks whether it goes on.
#
#     PGQ_FUZZ_SECONDS=600 PGQ_FUZZ_SEED=1 prove ... test/web/fuzz.pl      (default: 20 s, a seed of its own, which is printed)
#
# PGQ_WEB=PATH tests another build, such as one of "make SANITIZE=address,undefined pgq-web" or SANITIZE=thread: then a report
# of the sanitizer fails the test. The environment is that of the suite tap.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use HTTP::Tiny;
use IO::Socket::INET;
use JSON::PP;
use POSIX ();
use Time::HiRes qw(time);
use PgqTest;

my $program = $ENV{PGQ_WEB} // './pgq-web';
plan skip_all => 'pgq-web is not built: make pgq-web' if !-x $program;
my $seconds = $ENV{PGQ_FUZZ_SECONDS} // 20;
my $seed = $ENV{PGQ_FUZZ_SEED} // int rand 2**31;
my $senders = 4;
diag("PGQ_FUZZ_SEED=$seed PGQ_FUZZ_SECONDS=$seconds");

# ---- a server, some rows, and pgq-web ----

my $node = pgq_node('main');
sub sql { return $node->safe_psql('postgres', $_[0]) }

create_queue($node, 'mail', "max_attempts => 1, keep_finished => '1 day'");
sql(q{CREATE ROLE boss LOGIN PASSWORD 'boss-pw'; GRANT pg_monitor TO boss;
	GRANT SELECT ON ALL TABLES IN SCHEMA pgq_ext TO boss; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO boss});
sql(q{SELECT count(pgq_enqueue('mail', '{"a": 1}', unique_key => i::text)) FROM generate_series(1, 300) i});
sql(q{SELECT pgq_fail(job_id, lease, 'error ' || job_id) FROM pgq_claim('mail', 20)});
sql(q{SELECT pgq_schedule('s', '0 3 * * *', 'mail', '1')});
my $owner = sql('SELECT current_user');
unlink $node->data_dir . '/pg_hba.conf';
$node->append_conf('pg_hba.conf', "local all $owner trust\nlocal all all scram-sha-256\n");
$node->reload;

my $log = PostgreSQL::Test::Utils::tempdir() . '/fuzz.log';
my $out = '';
my $web;
{
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGDATABASE} = 'postgres';
	$web = IPC::Run::start([ $program, '--listen', '127.0.0.1:0' ], '<', \undef, '>', \$out, '2>', $log);
}
my $main = $$;
END { $web->kill_kill if $web && $$ == $main }
$web->pump until $out =~ /\n/ || !$web->pumpable;
my ($address, $port) = $out =~ m{^pgq-web: (http://127\.0\.0\.1:(\d+))/$}m or die 'pgq-web did not start: ' . slurp_file($log);
my $host = "127.0.0.1:$port";

# ---- requests ----

sub one_of { return $_[ rand @_ ] }
sub bytes { return join '', map { chr int rand 256 } 1 .. rand $_[0] }
sub text
{
	return one_of(
		'', '0', '1', '-1', '9223372036854775807', '9223372036854775808', '1e9', 'mail', 'boss', 'NaN', 'null', "\x{e4}", '%00', '%', '_',
		q{'; DROP TABLE x; --}, '<script>', '{}', '[]', '{"a":', '{"a": 1}', '2020-01-01T00:00:00Z', '0_2020-01-01T00:00:00.000000Z_1',
		'a' x rand 3000, '..', '../../etc/passwd', "\r\nX: y", bytes(30));
}
sub encoded { return $_[0] =~ s/([^a-zA-Z0-9_.-])/rand(20) < 1 ? '%zz' : sprintf '%%%02X', ord($1) % 256/ger }

my @paths = (map({"/api/$_"} qw(session overview health history queue jobs job dead schedules handlers batches locks rates runs capacity live none)), '/', '/app.js', '/queues/mail', '/jobs/1', '/..', '//');
my @names = qw(queue name id state group key error payload limit after by error_is find sort health full batch x);
my @headers = ('Host', 'Cookie', 'Origin', 'X-PGQ-CSRF', 'Content-Type', 'Content-Length', 'Transfer-Encoding', 'Content-Encoding', 'Range', 'Connection', 'Expect',
	'X-Forwarded-For', 'X-Forwarded-Proto', 'Accept-Encoding', 'If-None-Match', 'Upgrade', 'x');
my @actions = qw(pause_queue resume_queue retry redrive cancel release run_at priority enqueue run_schedule pause_schedule resume_schedule pause_handler resume_handler close_batch cancel_batch run_again purge_queue x);
my %session;

sub body
{
	my %body;
	$body{ one_of(qw(action role password queue id payload schedule batch confirm priority delay run_at error_like), text()) } = text() for 1 .. rand 5;
	$body{action} = one_of(@actions) if rand() < 0.7;
	$body{queue} = 'mail' if rand() < 0.3;
	$body{id} = 1 + int rand 320 if rand() < 0.3;
	my $json = join ', ', map { s/(["\\])/\\$1/gr =~ s/^|$/"/gr . ': ' . one_of('"' . $body{$_} =~ s/(["\\])/\\$1/gr . '"', '1', 'null', 'true', '[1]', '{"x": 1}', '-', '1e999', bytes(10)) } sort keys %body;
	return "{$json}";
}

# A request that may be right, and the headers that belong to it.
sub request
{
	my $path = rand() < 0.95 ? one_of(@paths) : '/' . bytes(50);
	my $is_post = rand() < 0.4;
	$path = one_of('/api/login', '/api/logout', '/api/action', '/api/x') if $is_post;
	$path .= '?' . join '&', map { one_of(@names) . '=' . encoded(text()) } 1 .. rand 4 if rand() < 0.6;
	my @lines = ("Host: $host");
	push @lines, "Cookie: $session{cookie}" if $session{cookie} && rand() < 0.8;
	push @lines, one_of(@headers) . ': ' . text() for 1 .. rand 3;
	push @lines, map({ "x$_: y" } 1 .. rand 300) if rand() < 0.02;
	push @lines, 'x: ' . 'y' x rand 20000 if rand() < 0.02;
	my $body = '';
	if ($is_post)
	{
		$body = body();
		push @lines, 'Content-Type: application/json' if rand() < 0.95;
		push @lines, 'X-PGQ-CSRF: ' . ($session{csrf} // '') if rand() < 0.95;
		if (rand() < 0.2)
		{
			push @lines, 'Transfer-Encoding: chunked';
			$body = join '', map({ sprintf "%x\r\n%s\r\n", rand() < 0.9 ? length : int rand 2**40, $_ } $body =~ /(.{1,20})/sg), rand() < 0.8 ? "0\r\n\r\n" : '';
		}
		else { push @lines, 'Content-Length: ' . (rand() < 0.9 ? length $body : one_of(0, 1, -1, 2**31, 2**63, 'x', length($body) + 1)) }
	}
	my $method = rand() < 0.95 ? $is_post ? 'POST' : 'GET' : one_of('HEAD', 'PUT', 'OPTIONS', 'DELETE', 'PRI', 'CONNECT', bytes(8));
	return join "\r\n", "$method $path HTTP/1.1", @lines, '', $body;
}

# Change some bytes, cut the request off, or send it twice.
sub damaged
{
	my ($request) = @_;
	return $request if rand() < 0.5;
	for (1 .. 1 + rand 4)
	{
		my $at = int rand length $request;
		my $how = int rand 4;
		substr($request, $at, 1) = chr int rand 256 if $how == 0;
		substr($request, $at, rand 20) = '' if $how == 1;
		substr($request, $at, 0) = one_of("\r\n", "\n", "\0", ':', ' ', bytes(40)) if $how == 2;
		substr($request, $at) = '' if $how == 3 && rand() < 0.3;
	}
	return rand() < 0.1 ? $request x 2 : $request;
}

# Send the request, and return the status; 0: there was no answer.
sub status_of
{
	my ($request) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => $PostgreSQL::Test::Utils::timeout_default) or return -1;
	local $SIG{PIPE} = 'IGNORE';
	my $bytes = $request;
	utf8::encode($bytes) if utf8::is_utf8($bytes);
	syswrite $socket, $bytes;
	shutdown $socket, 1 if rand() < 0.7;
	# Some callers do not wait for the answer, and none waits for the end of a stream.
	return 0 if rand() < 0.1;
	my $answer = '';
	my $ready = '';
	vec($ready, fileno $socket, 1) = 1;
	while (select(my $is_ready = $ready, undef, undef, 0.3)) { sysread($socket, $answer, 65536, length $answer) or last; last if length $answer > 200_000 }
	return $answer =~ m{^HTTP/1\.1 (\d+)} ? $1 : 0;
}

sub log_in
{
	my $http = HTTP::Tiny->new(keep_alive => 0);
	my $csrf = decode_json($http->get("$address/api/session")->{content})->{csrf};
	my $answer = $http->post("$address/api/login", { headers => { 'Content-Type' => 'application/json', 'X-PGQ-CSRF' => $csrf }, content => '{"role": "boss", "password": "boss-pw"}' });
	return if $answer->{status} != 200;
	($session{cookie}) = $answer->{headers}{'set-cookie'} =~ /^([^;]+)/;
	$session{csrf} = decode_json($answer->{content})->{csrf};
}

# send_all N: one process; its answers are counted by their status in a file.
sub send_all
{
	my ($n, $file) = @_;
	srand $seed + $n;
	my %count;
	for (my $end = time + $seconds; time < $end;)
	{
		log_in() if !$session{cookie} || rand() < 0.02;
		my $status = status_of(damaged(request()));
		$count{$status}++;
		append_to_file("$file.requests", "no connection\n"), last if $status == -1;
	}
	append_to_file($file, join '', map { "$_ $count{$_}\n" } sort keys %count);
}

# ---- send them, and look ----

my $file = PostgreSQL::Test::Utils::tempdir() . '/counts';
my @children;
for my $n (1 .. $senders)
{
	my $child = fork // die "fork: $!";
	if ($child == 0)
	{
		eval { send_all($n, "$file.$n") };
		append_to_file("$file.$n", "error $@") if $@;
		POSIX::_exit(0);
	}
	push @children, $child;
}
waitpid $_, 0 for @children;

my %sum;
for (1 .. $senders) { $sum{ (split)[0] } += (split)[1] for grep { !/^error/ } split /\n/, slurp_file("$file.$_") }
unlike(join('', map { slurp_file("$file.$_") } 1 .. $senders), qr/^error/m, 'all requests could be sent');
note(join ' ', map { "$_: $sum{$_}" } sort keys %sum);
cmp_ok($sum{200} // 0, '>', 0, 'some requests were answered');
is($sum{500} // 0, 0, 'none by an error that pgq-web did not expect');
is($sum{-1} // 0, 0, 'all found a server');
my $answer = HTTP::Tiny->new(timeout => $PostgreSQL::Test::Utils::timeout_default)->get("$address/api/session");
is($answer->{status}, 200, 'pgq-web goes on');
$web->signal('TERM');
$web->finish;
is($web->full_result(0), 0, '... and ends when it is told to');
my $said = slurp_file($log);
unlike($said, qr/Sanitizer|runtime error/, 'no report of a sanitizer');
diag($1) if $said =~ /((?:==\d+==ERROR|WARNING: ThreadSanitizer|[^\n]*runtime error).{0,3000})/s;
done_testing();
