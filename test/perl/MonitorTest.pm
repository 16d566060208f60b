# The exporter and Prometheus of Debian, on ports of their own, with the files of monitoring/. They end with the test, whatever
# becomes of it.
package MonitorTest;
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use HTTP::Tiny;
use IPC::Run;
use JSON::PP;
use Time::HiRes qw(time usleep);
use PgqTest;
use Exporter 'import';

our @EXPORT = qw(start_exporter start_prometheus stop_program start_beside metrics ask_prometheus query shorter until_true $minute $scrape_interval);

my $host = '127.0.0.1';
our $minute = 3; # seconds that stand for a minute of the rules
our $scrape_interval = 2;
my ($exporter_port, $prometheus_port, @running);

# ---- programs ----

# start_beside LOG, COMMAND: a program that the kernel ends when we end
sub start_beside
{
	my ($log, @command) = @_;
	my $run = IPC::Run::start([ 'setpriv', '--pdeathsig', 'KILL', @command ], '<', \undef, '>>', $log, '2>&1');
	push @running, $run;
	return $run;
}

sub stop_program
{
	my ($run) = @_;
	@running = grep { $_ != $run } @running;
	$run->kill_kill(grace => 10);
	return;
}

END
{
	my $status = $?;
	$_->kill_kill for @running;
	$? = $status;
}

# until_true SECONDS, WHAT, TEST: polls; what TEST has said at last if it is true, and the end of all if it never is
sub until_true
{
	my ($seconds, $what, $test) = @_;
	for my $end (time + $seconds)
	{
		my $result = $test->();
		return $result if $result;
		die "waited in vain for $what" if time > $end;
		usleep(200_000);
		redo;
	}
}

sub get
{
	my ($url) = @_;
	my $answer = HTTP::Tiny->new(timeout => 20)->get($url);
	return $answer->{success} ? $answer->{content} : undef;
}

# ---- the exporter ----

# start_exporter NODE, DATABASE...: as docs/operations.md has it, for these databases
sub start_exporter
{
	my ($node, @databases) = @_;
	$exporter_port //= PostgreSQL::Test::Cluster::get_free_port();
	my ($socket, $port) = ($node->host, $node->port);
	local $ENV{DATA_SOURCE_NAME} = join ',', map { "postgresql:///$_?user=prometheus&host=$socket&port=$port&sslmode=disable" } @databases;
	# What Debian 12's asks of its own accord it asks of each database, and then refuses to tell the same twice.
	my @once = @databases > 1 ? map { "--no-collector.$_" } qx(prometheus-postgres-exporter --help 2>&1) =~ /collector\.(database|bgwriter) /g : ();
	my $run = start_beside(log_of('exporter'), 'prometheus-postgres-exporter', "--web.listen-address=$host:$exporter_port",
		'--extend.query-path=monitoring/queries.yml', '--disable-default-metrics', '--disable-settings-metrics', @once);
	until_true($PostgreSQL::Test::Utils::timeout_default, 'the exporter', sub { get("http://$host:$exporter_port/") });
	return $run;
}

sub log_of { return "$PostgreSQL::Test::Utils::log_path/$_[0].log" }

# What a scrape brings: "name{labels}" => value, labels in their order.
sub metrics
{
	my $answer = HTTP::Tiny->new(timeout => 20)->get("http://$host:$exporter_port/metrics");
	my $text   = $answer->{content};
	die "the exporter: $text" if !$answer->{success};
	return { map { /^(\w+)(?:\{(.*)\})? (\S+)$/ ? (name_of($1, $2 // '') => $3) : () } split /\n/, $text };
}

# The exporter's own label says no more than its target's.
sub name_of
{
	my ($name, $labels) = @_;
	return "$name\{" . join(',', sort grep { !/^server=/ } $labels =~ /(\w+="(?:[^"\\]|\\.)*")/g) . '}';
}

# ---- Prometheus ----

# shorter TEXT: rules whose minutes are over sooner; nothing else is changed
sub shorter
{
	my ($rules) = @_;
	$rules =~ s/(?<=for: )(\d+)m$/$1 * $minute . 's'/gme;
	$rules =~ s/(?<=\[)(\d+)m(?=\])/$1 * $minute . 's'/ge;
	$rules =~ s/(?<=offset )(\d+)m\b/$1 * $minute . 's'/ge;
	return $rules;
}

sub spill
{
	my ($file, $text) = @_;
	open my $handle, '>', $file or die "$file: $!";
	print $handle $text;
	close $handle or die "$file: $!";
	return;
}

# start_prometheus RULES: with monitoring/prometheus.yml, but for ports and intervals
sub start_prometheus
{
	my ($rules) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	$prometheus_port = PostgreSQL::Test::Cluster::get_free_port();
	my $config = slurp_file('monitoring/prometheus.yml');
	# A scrape must be over before the next one; the exporter waits for a second before it says that there is no server.
	$config =~ s/scrape_interval: \K15s/${scrape_interval}s/;
	$config =~ s/evaluation_interval: \K15s/1s/;
	$config =~ s{/etc/prometheus/pgq_alerts.yml}{$dir/alerts.yml};
	$config =~ s/localhost:9187/$host:$exporter_port/;
	spill("$dir/prometheus.yml", $config);
	spill("$dir/alerts.yml",     $rules);
	my $run = start_beside(log_of('prometheus'), 'prometheus', "--config.file=$dir/prometheus.yml", "--storage.tsdb.path=$dir/data",
		"--web.listen-address=$host:$prometheus_port", '--log.level=warn');
	until_true($PostgreSQL::Test::Utils::timeout_default, 'Prometheus', sub { get("http://$host:$prometheus_port/-/ready") });
	return $run;
}

# ask_prometheus PATH, NAME => VALUE...: the data of the answer
sub ask_prometheus
{
	my ($path, @parameters) = @_;
	my $parameters = HTTP::Tiny->new->www_form_urlencode(\@parameters);
	my $answer     = HTTP::Tiny->new(timeout => 20)->get("http://$host:$prometheus_port/api/v1/$path?$parameters");
	die "$path $parameters: $answer->{content}" if !$answer->{success};
	return decode_json($answer->{content})->{data};
}

# [{metric => {...}, value => [time, value]}, ...]
sub query { return ask_prometheus('query', query => $_[0])->{result} }

1;
