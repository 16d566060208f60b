# The alert rules by themselves: promtool's unit tests of them (monitoring/alerts_test.yml), that each rule has one in which it
# fires, is silent before and after, and says where to read on, and that the files name the same things.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use MonitorTest;

command_like([ 'promtool', 'check', 'rules',  'monitoring/alerts.yml' ],      qr/SUCCESS/, 'promtool check rules');
command_ok([ 'promtool', 'check', 'config', '--syntax-only', 'monitoring/prometheus.yml' ], 'promtool check config');
command_like([ 'promtool', 'test', 'rules', 'monitoring/alerts_test.yml' ], qr/SUCCESS/, 'promtool test rules');

my %rule = split_at(qr/^      - alert: (\w+)\n/m, 'monitoring/alerts.yml');
my %test = split_at(qr/^  - name: (\w+)\n/m,      'monitoring/alerts_test.yml');
is(join(' ', sort keys %test), join(' ', sort keys %rule), 'each rule has a test');
for my $alert (sort keys %rule)
{
	is(join(' ', map { /exp_alerts/ ? 1 : 0 } tail(split /- eval_time/, $test{$alert})), '0 1 0', "$alert: silent, fires, resolves");
	like($rule{$alert}, qr/^          summary: '.+'\n          description: '.+'\n          playbook: 'docs\/operations.md#what-an-alert-asks-for: $alert'\n/m,
		'... summary, description, where to read on');
}

# Every time of theirs is in minutes, so that "shorter" reaches it; thresholds have no unit.
my $rules = slurp_file('monitoring/alerts.yml');
$rules =~ s/^ *#.*\n|'[^']*'//mg;
is(join(' ', shorter($rules) =~ /\b\d+[mhd]\b/g), '', 'the test can shorten every time');

my ($rows) = slurp_file('docs/operations.md') =~ /^### What an alert asks for\n(.*?)(?=^#)/ms;
is(join(' ', sort $rows =~ /`(Pgq\w+)`/g), join(' ', sort keys %rule), 'each has its row in the documentation');
my ($list) = slurp_file('monitoring/README.md') =~ /^## Alerts\n(.*?)(?=^#)/ms;
is(join(' ', sort $list =~ /`(Pgq\w+)`/g), join(' ', sort keys %rule), '... and is in the list');

# What rules and dashboard ask for is what the exporter brings.
my %metric = (ALERTS => 1, map { ($_ => 1) } qw(up pg_up pg_exporter_last_scrape_error));
my %view = split_at(qr/^(pgq_\w+):\n/m, 'monitoring/queries.yml');
while (my ($view, $text) = each %view)
{
	$metric{"${view}_$1"} = 1 while $text =~ /^    - (\w+): \{ usage: (?!LABEL)/mg;
}
$metric{"pgq_queue_latency_seconds_$_"} = 1 for qw(bucket sum count);
for my $file ('monitoring/alerts.yml', 'monitoring/dashboard.json')
{
	my %named = map { ($_ => 1) } slurp_file($file) =~ /\b(pgq_(?:queue_\w+|health|capacity|duty|schedule|handler|batch|segment)_\w+)/g;
	is(join(' ', grep { !$metric{$_} } sort keys %named), '', "$file names metrics that there are");
}

# (name => text up to the next one, ...)
sub split_at
{
	my ($name, $file) = @_;
	return tail(split $name, slurp_file($file));
}

sub tail { return @_[ 1 .. $#_ ] }

done_testing();
