# The API of pgq-web: every path, rights, logins, the checks of requests, and a lost connection.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use HTTP::Tiny;
use IO::Socket::INET;
use JSON::PP;
use PgqTest;

my $program = $ENV{PGQ_WEB} // './pgq-web';
plan skip_all => 'pgq-web is not built: make pgq-web' if !-x $program;

# ---- a server whose roles need passwords, and pgq-web ----

my $node = pgq_node('main');
sub sql { return $node->safe_psql('postgres', $_[0]) }

create_queue($node, 'mail', "max_attempts => 1, keep_finished => '1 day', log_attempts => 'all', lease_time => '1 hour'");
create_queue($node, 'closed');
create_queue($node, 'purged');
my $owner = sql('SELECT current_user');
sql(q{CREATE ROLE boss LOGIN PASSWORD 'boss-pw'; CREATE ROLE viewer LOGIN PASSWORD 'viewer-pw'; CREATE ROLE nologin PASSWORD 'nologin-pw';
	CREATE ROLE monitor LOGIN; GRANT pg_monitor TO boss, viewer, monitor;
	GRANT SELECT ON ALL TABLES IN SCHEMA pgq_ext TO boss; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO boss;
	SELECT pgq_grant('closed', 'monitor', '{inspect}')});
# The settings of a session of pgq-web win over those of a role.
sql(q{ALTER ROLE boss SET statement_timeout = '1ms'; ALTER ROLE boss SET default_transaction_read_only = off; ALTER ROLE boss SET DateStyle = 'German'; ALTER ROLE boss SET search_path = public});
my $hba = $node->data_dir . '/pg_hba.conf';
unlink $hba;
$node->append_conf('pg_hba.conf', "local all $owner,monitor trust\nlocal all all scram-sha-256\n");
$node->reload;

my %running;

# start_web NAME, OPTIONS: returns the address
sub start_web
{
	my ($name, @options) = @_;
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGDATABASE} = 'postgres';
	my $log = PostgreSQL::Test::Utils::tempdir() . "/$name.log";
	my $out = '';
	my $web = IPC::Run::start([ $program, '--listen', '127.0.0.1:0', @options ], '<', \undef, '>', \$out, '2>', $log);
	$running{$name} = { web => $web, log => $log };
	$web->pump until $out =~ /\n/ || !$web->pumpable;
	my ($address) = $out =~ m{^pgq-web: (http://\S+)/$}m or die "pgq-web did not start: " . slurp_file($log);
	return $address;
}

sub log_of { return slurp_file($running{ $_[0] }{log}) }

END { $_->{web}->kill_kill for values %running }

# One browser: a cookie, and the token of its session.
my $http = HTTP::Tiny->new(timeout => $PostgreSQL::Test::Utils::timeout_default, keep_alive => 0, max_redirect => 0);
my %browser;

sub answer_of
{
	my ($response) = @_;
	my $json = eval { decode_json($response->{content}) } // {};
	$browser{csrf} = $json->{csrf} if $json->{csrf};
	my $cookie = $response->{headers}{'set-cookie'} // '';
	$browser{cookie} = $2 ? "$1=$2" : '' if $cookie =~ /^(\w+)=(\w*)/;
	return ($response->{status}, $json, $response);
}

sub get
{
	my ($url, %headers) = @_;
	$headers{Cookie} //= $browser{cookie} if $browser{cookie};
	return answer_of($http->get($url, { headers => \%headers }));
}

sub post
{
	my ($url, $body, %headers) = @_;
	%headers = ('Content-Type' => 'application/json', 'X-PGQ-CSRF' => $browser{csrf} // '', %headers);
	$headers{Cookie} //= $browser{cookie} if $browser{cookie};
	my $content = ref $body ? encode_json($body) : $body;
	return answer_of($http->post($url, { headers => \%headers, content => $content }));
}

# status and code of an error
sub error_of { my ($status, $json) = @_; return join ' ', $status, $json->{error}{code} // '-' }

my $web = start_web('main', '-U', 'monitor');
my $api = "$web/api";
my ($status, $json, $response);

# ---- what is there ----

my $markup = qq{<script>alert("1")</script> & '\xc3\xbc' \xe2\x98\x83};
my $in_sql = $markup =~ s/'/''/gr;
my $dead   = sql(qq{SELECT pgq_enqueue('mail', jsonb_build_object('html', '$in_sql'), group_key => '<g>')});
sql(qq{SELECT pgq_fail(job_id, lease, '$in_sql') FROM pgq_claim('mail')});
my $done = sql(q{SELECT pgq_enqueue('mail', '{"n": 12345678901234567890}')});
sql(q{SELECT pgq_ack(job_id, lease, '{"r": 9007199254740993}') FROM pgq_claim('mail')});
my $parent = sql(q{SELECT pgq_enqueue('mail', '1', unique_key => 'k')});
my $child = sql(qq{SELECT pgq_enqueue('mail', '2', after => ARRAY[$parent])});
my $later = sql(q{SELECT pgq_enqueue('mail', '3', delay => '1 hour', priority => 5)});
sql(q{SELECT pgq_enqueue('closed', '1'), pgq_enqueue('purged', '1')});
sql(q{SELECT pgq_schedule('<nightly>', '0 3 * * *', 'mail', '{"s": 1}'); SELECT pgq_create_rate('calls', 5, '1 s'); SELECT pgq_create_batch()});
my $batch = sql('SELECT max(batch_id) FROM pgq_ext.job_batch');

# ---- every path, without a login ----

($status, $json, $response) = get("$api/session");
is("$status $json->{database} $json->{reader}", '200 postgres monitor', 'the session tells the database and the role that reads');
is($json->{role}, undef, '... nobody has logged in');
like($response->{headers}{'content-security-policy'}, qr/^default-src 'none'; script-src 'self'/, '... a content security policy');
is($response->{headers}{'cache-control'}, 'no-store', '... data is not stored');

($status, $json) = get("$api/overview");
is($status, 200, 'overview');
is(join(' ', map { $_->{queue} } @{ $json->{queues} }), 'closed mail purged', '... names all queues');
ok(exists $json->{health}[0]{status}, '... and health');
is((get("$api/health"))[1]{health}[0]{check}, $json->{health}[0]{check}, '... which has a path of its own');
ok(!exists((get("$api/overview?health=0"))[1]{health}), '... and can be left out');
is($json->{totals}{queues}, '3', '... and totals');
($status, $json) = get("$api/overview?find=AI&limit=1&sort=dead");
is(join(' ', map { "$_->{queue} $_->{dead}" } @{ $json->{queues} }), 'mail 1', '... finds a name, and sorts');
ok(exists $json->{queues}[0]{$_}, "... with $_") for qw(oldest_ready_age wait_p95 run_p95 acked_rate);
is(error_of(get("$api/overview?sort=1;drop")), '400 argument', '... refuses an unknown order');

($status, $json) = get("$api/queue?name=mail");
is("$status $json->{queue}{max_attempts} $json->{queue}{dead} $json->{stats}{failed}", '200 1 1 1', 'queue: options, numbers, counters');
is($json->{schedules}[0]{schedule}, '<nightly>', '... its schedules');
is(error_of(get("$api/queue?name=none")), '404 42704', '... an unknown queue');

($status, $json) = get("$api/jobs?queue=mail");
is(join(' ', map { $_->{job_id} } @{ $json->{rows} }), "$later $parent $child", 'jobs of a queue in order, without SELECT on pgq_ext.job');
is(error_of(get("$api/jobs?queue=mail&payload=%7B%7D")), '403 42501', '... and may not search payloads');

($status, $json) = get("$api/job?id=$dead");
is("$status $json->{job}{where} $json->{job}{reason}", '200 dead attempts used up', 'job: a dead letter');
is($json->{job}{last_error}, decode_utf8_text($markup), '... its error, with markup, as it is');
is($json->{payload}, undef, '... no payload for a member of pg_monitor');
is($json->{explanation}[0]{step}, undef, '... no explanation without EXECUTE on pgq_explain');
like("@{ $json->{notes} }", qr/pgq_explain: permission denied/, '... a note says so');
ok(!grep({ exists $_->{lease} } @{ $json->{attempts} }), '... no lease is shown');
is(error_of(get("$api/job?id=x")), '400 argument', '... an id that is no number');

($status, $json) = get("$api/dead?by=error");
is("$status $json->{rows}[0]{jobs} $json->{rows}[0]{sample_id} $json->{rows}[0]{queue} $json->{searched}", "200 1 $dead mail 1", 'dead letters by error');
is($json->{rows}[0]{error_like}, decode_utf8_text($markup), '... with a pattern for pgq_redrive');
ok($json->{rows}[0]{error_like_is_exact}, '... that fits no other error');
($status, $json) = get("$api/dead?queue=mail&error=SCRIPT");
is($json->{rows}[0]{job_id}, $dead, '... searched by a part of the error');
is($json->{searched}, 1, '... and how many were looked at');
for (qw(schedules handlers batches locks rates runs capacity))
{
	($status, $json) = get("$api/$_");
	is("$status " . ref $json->{rows}, '200 ARRAY', $_);
}
($status, $json) = get("$api/history");
is("$status " . join(' ', map { ref $json->{$_} } qw(times enqueued wait_p95)), '200 ARRAY ARRAY ARRAY', 'history');
is(error_of(get("$api/none")), '404 no such path', 'an unknown path');
is(error_of(get("$api/overview?find=a&find=b")), '400 argument', 'a parameter that occurs twice');

# JSON::PP returns characters; the source of this file has bytes.
sub decode_utf8_text { my ($text) = @_; utf8::decode($text); return $text }

# ---- the files of the page ----

($status, $json, $response) = get("$web/");
is("$status $response->{headers}{'content-type'}", '200 text/html; charset=utf-8', 'the page');
my $etag = $response->{headers}{etag};
is((get("$web/", 'If-None-Match' => $etag))[0], 304, '... not sent again');
is((get("$web/queues/a.b%3Cx%3E"))[0], 200, 'the address of a view');
is(error_of(get("$web/../../etc/passwd.txt")), '404 no such path', 'no other file');

# ---- requests that are refused ----

sub raw
{
	my ($request) = @_;
	my ($port) = $web =~ /:(\d+)/;
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 30) or die "no connection: $!";
	print $socket $request;
	local $/;
	my $answer = <$socket>;
	my ($first) = ($answer // '') =~ m{^HTTP/1.1 (\d+)};
	return $first // 'closed';
}
my ($host) = $web =~ m{//(.*)};
is(raw("GET /api/session HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 421, 'another host (DNS rebinding)');
is(raw("GET /api/session HTTP/1.1\r\n\r\n"), 421, '... no host');
is(raw("GET /api/session HTTP/1.1\r\nHost: localhost:" . ($host =~ s/.*://r) . "\r\n\r\n"), 200, '... localhost is allowed');
is(raw("DELETE /api/session HTTP/1.1\r\nHost: $host\r\n\r\n"), 405, 'another method');
is(raw("GET /" . ('a' x 5000) . " HTTP/1.1\r\nHost: $host\r\n\r\n"), 414, 'a long path');
is(raw("GET /api/session HTTP/1.1\r\nHost: $host\r\nRange: bytes=0-1,0-1,0-1\r\n\r\n"), 200, 'a range is ignored');

my %login = (role => 'boss', password => 'boss-pw');
is(error_of(post("$api/action", { action => 'cancel', id => $parent })), '401 login', 'no action without a login');
is(error_of(post("$api/login", \%login, 'X-PGQ-CSRF' => 'x')), '403 csrf', 'a wrong token');
is(error_of(post("$api/login", \%login, 'X-PGQ-CSRF' => '')), '403 csrf', 'no token');
is(error_of(post("$api/login", \%login, Origin => 'http://evil.example')), '403 origin', 'another origin');
is(error_of(post("$api/login", \%login, Origin => 'null')), '403 origin', '... of a frame without one');
is(error_of(post("$api/login", 'role=boss', 'Content-Type' => 'application/x-www-form-urlencoded')), '415 argument', 'a form');
is(error_of(post("$api/login", '{"role": "boss", "password": {"x": 1}}')), '400 argument', 'nested JSON');
is(error_of(post("$api/login", '{"role": "boss"')), '400 argument', 'JSON that is cut off');

# ---- logins ----

my %text;
for ([ 'boss', 'wrong' ], [ 'unknown', 'wrong' ], [ 'nologin', 'nologin-pw' ])
{
	my ($s, $j) = post("$api/login", { role => $_->[0], password => $_->[1] });
	is($s, 401, "a login that fails: @$_");
	$text{ $j->{error}{message} } = 1;
}
is(scalar keys %text, 1, '... does not tell why');
is(error_of(post("$api/login", { role => $owner, password => 'x' })), '403 login', 'a role that needs no password cannot log in');
is(error_of(post("$api/login", { role => 'boss', password => '' })), '400 argument', 'no password');
($status, $json, $response) = post("$api/login", \%login);
is("$status $json->{role}", '200 boss', 'a login');
like($response->{headers}{'set-cookie'}, qr/^pgq_session_\d+=[0-9a-f]{64}; Path=\/; HttpOnly; SameSite=Strict$/, '... its cookie');
my %boss = %browser;

# ---- rights of the role ----

($status, $json) = get("$api/jobs?queue=mail");
is(join(' ', map { $_->{job_id} } @{ $json->{rows} }), "$later $parent $child", 'jobs in the order in which they are handed out');
my @pages;
for (my $after = ''; defined $after; $after = $json->{after})
{
	($status, $json) = get("$api/jobs?queue=mail&limit=1&after=$after");
	push @pages, map { $_->{job_id} } @{ $json->{rows} };
}
is("@pages", "$later $parent $child", '... page by page');
for ([ 'state=scheduled', $later ], [ 'state=blocked', $child ], [ 'state=ready', $parent ], [ 'key=k', $parent ], [ 'payload=3', $later ], [ 'group=x', '' ], [ 'state=leased', '' ])
{
	($status, $json) = get("$api/jobs?queue=mail&$_->[0]");
	is(join(' ', map { $_->{job_id} } @{ $json->{rows} }), $_->[1], "... with $_->[0]");
}
is(error_of(get("$api/jobs?queue=mail&after=1_x_2")), '400 argument', '... a bad cursor');
is(error_of(get("$api/jobs?queue=mail&payload=%7B")), '422 22P02', '... a payload that is no JSON');

($status, $json) = get("$api/job?id=$dead");
is(JSON::PP->new->decode($json->{payload})->{html}, decode_utf8_text($markup), 'job: a payload with markup');
is($json->{explanation}[0]{step}, 'dead', '... its explanation');
is(join(' ', map { $_->{what} } @{ $json->{timeline} }), 'enqueued claimed died failed', '... its time line');
($status, $json) = get("$api/job?id=$done");
is("$json->{job}{where} $json->{job}{queue} $json->{payload} $json->{result}", 'finished mail {"n": 12345678901234567890} {"r": 9007199254740993}', 'job: a finished one, with exact numbers');
($status, $json) = get("$api/job?id=$child");
is("$json->{job}{where} $json->{job}{state} " . join(' ', @{ $json->{parents}[0] }{qw(job_id state on_failure)}), "live blocked $parent ready cancel", 'job: a child, and the state of its parent');
like($json->{job}{waits_for}, qr/the end of job $parent/, '... what it waits for');
($status, $json) = get("$api/job?id=$parent");
is(join(' ', @{ $json->{children}[0] }{qw(job_id state)}), "$child blocked", '... and of a child');
($status, $json) = get("$api/queue?name=mail");
is("@{ $json->{rights} }", 'enqueue claim inspect admin', 'the rights of the role on a queue');
($status, $json) = get("$api/queue?name=closed");
is("@{ $json->{rights} }", '', '... on a closed one');
is((get("$api/session"))[1]{actions}[0], 'pause_queue', 'the session names the actions whose functions the role may call');
($status, $json) = get("$api/job?id=999999");
is("$status " . ($json->{job}{where} // 'nowhere') . " $json->{explanation}[0]{step}", '200 nowhere unknown', 'job: an unknown one');
is(error_of(post("$api/action", { action => 'pause_queue', queue => 'closed' })), '403 42501', 'an action for which the role lacks the right');

# ---- actions ----

sub result_of
{
	my ($s, $j) = post("$api/action", {@_});
	return $s == 200 ? $j->{result} : "$s $j->{error}{code} $j->{error}{message}";
}
is(result_of(action => 'pause_queue', queue => 'mail'), undef, 'pause_queue');
is(sql(q{SELECT paused FROM pgq_ext.queue WHERE queue = 'mail'}), 't', '... is done');
is(result_of(action => 'resume_queue', queue => 'mail'), undef, 'resume_queue');
is(result_of(action => 'priority', id => $parent, priority => 7), JSON::PP::true, 'priority');
is(result_of(action => 'run_at', id => $later, run_at => '2100-01-01T00:00:00Z'), JSON::PP::true, 'run_at');
is(sql("SELECT priority FROM pgq_ext.job WHERE job_id = $parent"), 7, '... is done');
is(result_of(action => 'retry', id => $later, delay => '0'), JSON::PP::true, 'retry');
is(result_of(action => 'redrive', queue => 'mail', error_like => '%none%'), '0', 'redrive of dead letters that match');
is(result_of(action => 'redrive', queue => 'mail'), '1', '... of all');
is(result_of(action => 'cancel', id => $dead), 'ready', 'cancel');
like(result_of(action => 'run_again', id => $done), qr/^\d+$/, 'run_again');
my $made = result_of(action => 'enqueue', queue => 'mail', payload => qq({"n": 12345678901234567890}), priority => '3', group_key => q{'; DROP TABLE x --}, delay => '60');
is(sql("SELECT payload->>'n', priority, group_key FROM pgq_ext.job WHERE job_id = $made"), q{12345678901234567890|3|'; DROP TABLE x --}, 'enqueue');
like(result_of(action => 'run_schedule', schedule => '<nightly>'), qr/^\d+$/, 'run_schedule');
is(result_of(action => 'pause_schedule', schedule => '<nightly>'), undef, 'pause_schedule');
is(result_of(action => 'resume_schedule', schedule => '<nightly>'), undef, 'resume_schedule');
like(result_of(action => 'pause_handler', queue => 'mail'), qr/^422 42704/, 'pause_handler: there is none');
like(result_of(action => 'resume_handler', queue => 'mail'), qr/^422 42704/, 'resume_handler: there is none');
like(result_of(action => 'close_batch', batch => $batch), qr/^422 42704/, 'close_batch: of another role');
like(result_of(action => 'cancel_batch', batch => $batch), qr/^422 42704/, 'cancel_batch: of another role');
is(result_of(action => 'purge_queue', queue => 'purged'), '400 confirm type the name of the queue to purge it', 'purge_queue needs the name');
is(result_of(action => 'purge_queue', queue => 'purged', confirm => 'purge'), '400 confirm type the name of the queue to purge it', '... the right one');
is(result_of(action => 'purge_queue', queue => 'purged', confirm => 'purged'), '1', '... and purges');
like(result_of(action => 'drop_queue', queue => 'mail'), qr/^400 argument there is no action/, 'an unknown action');
like(result_of(action => 'cancel', id => $parent, queue => 'mail'), qr/^400 argument cancel has no argument/, 'an unknown argument');
like(result_of(action => 'cancel'), qr/^400 argument cancel needs id/, 'a missing argument');
like(result_of(action => 'cancel', id => '1; DROP'), qr/^422 22P02/, 'an id that is no number');
my $held = sql(q{SELECT job_id FROM pgq_claim('mail')});
is(result_of(action => 'release', id => $held), JSON::PP::true, 'release');
is(sql("SELECT count(*) FROM pgq_ext.lease WHERE job_id = $held"), 0, '... is done');

# ---- a large payload ----

my $large = 'x' x 1_000_000;
my $large_id = result_of(action => 'enqueue', queue => 'mail', payload => encode_json({ large => $large }));
like($large_id, qr/^\d+$/, 'a payload of a million bytes');
($status, $json) = get("$api/job?id=$large_id");
is(($json->{payload} // 'not shown') . " $json->{payload_bytes}", 'not shown 1000013', '... is shown on demand only');
($status, $json) = get("$api/job?id=$large_id&full=1");
is(length $json->{payload}, 1000013, '... on demand');
is((post("$api/action", { action => 'enqueue', queue => 'mail', payload => 'x' x 10_000_000 }))[0] =~ /^(413|599)$/, 1, 'a body that is too large');

# ---- the log ----

my $log = log_of('main');
like($log, qr/^pgq-web: action role="boss" from=127\.0\.0\.1 enqueue queue="mail" priority="3" delay="60" group_key="'; DROP TABLE x --": done, result "$made"$/m, 'the log names role, action and arguments');
unlike($log, qr/12345678901234567890|xxxx|boss-pw/, '... no payload, and no password');
like($log, qr/^pgq-web: action role="boss" .* pause_queue queue="closed": failed, 42501 /m, '... what failed');
like(result_of(action => 'pause_queue', queue => "a\nb\e[2J"), qr/^422 22023/, 'control characters in an argument');
like(log_of('main'), qr/queue="a\\\\nb\\\\x1b\[2J": failed/, '... do not reach the log');

# ---- changes ----

my ($port) = $web =~ /:(\d+)/;
my $stream = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 30);
print $stream "GET /api/live HTTP/1.1\r\nHost: $host\r\n\r\n";
my $heard = '';
while ($heard !~ /event: tick/) { sysread($stream, my $more, 4096) or last; $heard .= $more }
like($heard, qr{Content-Type: text/event-stream.*event: tick}s, 'live: a tick');
my $ticks = () = $heard =~ /event: tick/g;
sql(q{SELECT pgq_enqueue('mail', '4', delay => '1 hour')});
while ((() = $heard =~ /event: tick/g) <= $ticks) { sysread($stream, my $more, 4096) or last; $heard .= $more }
cmp_ok(scalar(() = $heard =~ /event: tick/g), '>', $ticks, '... and one after a change');
close $stream;

# ---- the end of a session, and another one ----

($status, $json) = post("$api/logout", {});
is("$status " . ($json->{role} // 'nobody'), '200 nobody', 'logout');
is(error_of(get("$api/overview", Cookie => $boss{cookie})), '401 login', '... ends the session');
%browser = (csrf => $json->{csrf});
($status, $json) = post("$api/login", { role => 'viewer', password => 'viewer-pw' });
is("$status $json->{role}", '200 viewer', 'another role');
is("@{ $json->{actions} }", '', '... has no action');
is(error_of(post("$api/action", { action => 'cancel', id => $parent })), '403 42501', '... may not act');
($status, $json) = get("$api/jobs?queue=mail&limit=2");
my @first = map { $_->{job_id} } @{ $json->{rows} };
is("$status @first", join(' ', 200, split /\n/, sql(q{SELECT job_id FROM pgq_ext.job j JOIN pgq_ext.queue q USING (queue_id) WHERE queue = 'mail' ORDER BY j.priority DESC, run_at, job_id LIMIT 2})), '... sees the jobs in order, without SELECT on pgq_ext.job');
($status, $json) = get("$api/jobs?queue=mail&limit=2&after=$json->{after}");
is("$status " . scalar(grep { my $id = $_->{job_id}; grep { $id == $_ } @first } @{ $json->{rows} }), '200 0', '... page by page');
($status, $json) = get("$api/jobs?queue=mail&state=blocked");
is("$status " . join(' ', map { $_->{state} } @{ $json->{rows} }) . ' ' . ($json->{searched} > 1 ? 'searched' : 'not searched'), '200 blocked searched', '... by state');
is(error_of(get("$api/jobs?queue=mail&payload=1")), '403 42501', '... no search in payloads');
is(error_of(post("$api/action", { action => 'cancel', id => $parent }, 'X-PGQ-CSRF' => $boss{csrf})), '403 csrf', '... nor with the token of another session');

# ---- a lost connection ----

$node->stop('immediate');
is(error_of(get("$api/overview")), '503 database', 'the server is down: for a session');
is(error_of(get("$api/overview", Cookie => 'x=1')), '503 database', '... and without one');
($status, $json) = get("$api/session");
is("$status " . ($json->{database} // 'unknown'), '200 unknown', '... the session says so');
unlike((get("$api/overview", Cookie => 'x=1'))[1]{error}{detail}, qr/\\n/, '... in one line');
ok($json->{problem}, '... with the reason');
$node->start;
($status, $json) = get("$api/overview");
is($status, 200, 'the server is back: the session goes on');
is((get("$api/overview", Cookie => 'x=1'))[0], 200, '... and all others');

# ---- too many failed logins ----

%browser = ();
get("$api/session");
my $limit;
for (1 .. 6) { my ($s, $j, $r) = post("$api/login", { role => 'boss', password => 'wrong' }); $limit = "$s " . ($r->{headers}{'retry-after'} // '') }
like($limit, qr/^429 \d+$/, 'too many failed logins');

# ---- other options ----

%browser = ();
get("$api/session");
for (1 .. 6) { ($status) = post("$api/login", { role => 'boss', password => 'wrong' }, 'X-Forwarded-For' => "192.0.2.$_") }
is($status, 429, '... also with an X-Forwarded-For, which only a trusted proxy may set');
%browser = ();
$web = start_web('readonly', '--read-only', '--hide-payload', '--prefix', '/pgq', '--host', 'queues.example');
$api = "$web/api";
($host) = $web =~ m{//([^/]*)};
($status, $json) = get("$api/session");
is("$status $json->{readonly} $json->{hide_payload}", '200 1 1', '--read-only, --hide-payload, --prefix');
is(error_of(post("$api/login", \%login)), '403 readonly', '... no login');
is(error_of(post("$api/action", { action => 'cancel', id => $parent })), '403 readonly', '... no action');
($status, $json) = get("$api/job?id=$done");
is(join(' ', map { $json->{$_} // 'none' } qw(payload headers result)), 'none none none', '... no payload, though the role may read it');
is(error_of(get("$api/jobs?queue=mail&payload=1")), '403 argument', '... no search in payloads');
($status, $json) = get("$api/schedules");
ok(!exists $json->{rows}[0]{payload}, '... nor the payload of a schedule');
is((get("http://$host/pgq"))[0], 302, 'the prefix without a slash leads to the page');
is((get("http://$host/api/session"))[0], 404, 'nothing is outside of the prefix');
like((get("$web/"))[2]{content}, qr{src="/pgq/app.js"}, 'the page knows its prefix');
is(raw("GET /pgq/api/session HTTP/1.1\r\nHost: queues.example\r\n\r\n"), 200, '--host');

%browser = ();
$web = start_web('closed', '--require-login', '--trusted-proxy', '127.0.0.1');
$api = "$web/api";
($host) = $web =~ m{//([^/]*)};
($status, $json) = get("$api/session");
is("$status $json->{require_login} " . join(' ', map { $_ // 'null' } @{$json}{qw(database reader host problem)}), '200 1 null null null null', '--require-login: the session tells nothing');
is(error_of(get("$api/$_")), '401 login', "... no $_") for qw(overview health history queue?name=mail jobs?queue=mail job?id=1 dead schedules live);
is((get("$web/"))[0], 200, '... only the page');
for (1 .. 6) { ($status) = post("$api/login", { role => 'boss', password => 'wrong' }, 'X-Forwarded-For' => "198.51.100.$_, 192.0.2.1") }
is($status, 429, '--trusted-proxy: failed logins of an address behind the proxy');
($status) = post("$api/login", { role => 'boss', password => 'wrong' }, 'X-Forwarded-For' => '192.0.2.2');
is($status, 401, '... are not those of another address');
like(log_of('closed'), qr/login role="boss" from=192\.0\.2\.1: failed/, '... and the log names it');
($status) = post("$api/login", { role => 'boss', password => 'wrong' }, 'X-Forwarded-For' => [ '192.0.2.4', '192.0.2.5' ]);
like(log_of('closed'), qr/login role="boss" from=127\.0\.0\.1: failed/, '... of several headers, whose order is not kept, none counts');
($status, $json) = post("$api/login", \%login, 'X-Forwarded-For' => '192.0.2.3', Cookie => 'pgq_session_' . ($host =~ s/.*://r) . '=' . 'a' x 64);
is("$status $json->{role}", '200 boss', '... a login');
isnt($browser{cookie} =~ s/.*=//r, 'a' x 64, '... whose token the caller cannot choose');
is((get("$api/overview"))[0], 200, '... shows the data');
unlike(log_of($_), qr/AddressSanitizer|runtime error/, "no report of a sanitizer: $_") for sort keys %running;

done_testing();
