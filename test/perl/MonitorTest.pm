# Debian's exporter and Prometheus, on ports of their own, with the files of monitoring/. Both programs end with the
# test, even if the test dies.
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

# start_beside LOG, COMMAND: starts a program that the kernel ends when this process ends
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

# until_true SECONDS, WHAT, TEST: polls TEST, and returns its first true value; dies if there is none in time
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
	my $answer = HTTP::Tiny->new(timeout => $PostgreSQL::Test::Utils::timeout_default)->get($url);
	return $answer->{success} ? $answer->{content} : undef;
}

# ---- the exporter ----

# start_exporter NODE, DATABASE...: starts it as in docs/operations.md, for these databases
sub start_exporter
{
	my ($node, @databases) = @_;
	$exporter_port //= PostgreSQL::Test::Cluster::get_free_port();
	my ($socket, $port) = ($node->host, $node->port);
	local $ENV{DATA_SOURCE_NAME} = join ',', map { "postgresql:///$_?user=prometheus&host=$socket&port=$port&sslmode=disable" } @databases;
	# Debian 12's exporter runs its own queries in each database, and then rejects the duplicate results.
	my @once = @databases > 1 ? map { "--no-collector.$_" } qx(prometheus-postgres-exporter --help 2>&1) =~ /collector\.(database|bgwriter) /g : ();
	my $run = start_beside(log_of('exporter'), 'prometheus-postgres-exporter', "--web.listen-address=$host:$exporter_port",
		'--extend.query-path=monitoring/queries.yml', '--disable-default-metrics', '--disable-settings-metrics', @once);
	until_true($PostgreSQL::Test::Utils::timeout_default, 'the exporter', sub { get("http://$host:$exporter_port/") });
	return $run;
}

sub log_of { return "$PostgreSQL::Test::Utils::log_path/$_[0].log" }

# Returns the metrics of a scrape: "name{labels}" => value, with sorted labels.
sub metrics
{
	my $answer = HTTP::Tiny->new(timeout => $PostgreSQL::Test::Utils::timeout_default)->get("http://$host:$exporter_port/metrics");
	my $text   = $answer->{content};
	die "the exporter: $text" if !$answer->{success};
	return { map { /^(\w+)(?:\{(.*)\})? (\S+)$/ ? (name_of($1, $2 // '') => $3) : () } split /\n/, $text };
}

# Drops the exporter's own label, which adds nothing to that of its target.
sub name_of
{
	my ($name, $labels) = @_;
	return "$name\{" . join(',', sort grep { !/^server=/ } $labels =~ /(\w+="(?:[^"\\]|\\.)*")/g) . '}';
}

# ---- Prometheus ----

# shorter TEXT: returns the rules with shorter minutes; everything else is unchanged
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

# start_prometheus RULES: starts it with monitoring/prometheus.yml, except for ports and intervals
sub start_prometheus
{
	my ($rules) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	$prometheus_port = PostgreSQL::Test::Cluster::get_free_port();
	my $config = slurp_file('monitoring/prometheus.yml');
	# A scrape must end before the next one begins; the exporter takes a second to report that there is no server.
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

# ask_prometheus PATH, NAME => VALUE...: returns the data of the answer
sub ask_prometheus
{
	my ($path, @parameters) = @_;
	my $parameters = HTTP::Tiny->new->www_form_urlencode(\@parameters);
	my $answer     = HTTP::Tiny->new(timeout => $PostgreSQL::Test::Utils::timeout_default)->get("http://$host:$prometheus_port/api/v1/$path?$parameters");
	die "$path $parameters: $answer->{content}" if !$answer->{success};
	return decode_json($answer->{content})->{data};
}

# Returns [{metric => {...}, value => [time, value]}, ...]
sub query { return ask_prometheus('query', query => $_[0])->{result} }

1;
