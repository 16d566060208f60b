# The statements of the documentation about settings, functions, views and sizes agree with the server.
use strict;
use warnings;
use POSIX qw(ceil);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main');
sub sql  { return $node->safe_psql('postgres', $_[0]) }
sub rows { return map { [ split /\|/, $_, -1 ] } split /\n/, sql($_[0]) }

my $reference  = slurp_file('docs/reference.md');
my $operations = slurp_file('docs/operations.md');

# The part of a page below a heading, up to the next one of its rank.
sub section
{
	my ($page, $heading) = @_;
	my ($rank) = $heading =~ /^(#+)/;
	return $page =~ /^\Q$heading\E\n(.*?)(?=^#{1,${\length $rank}} |\z)/ms ? $1 : die "there is no section \"$heading\"";
}

# The rows of its tables, without their headings: [cell, ...]
sub table
{
	my ($section) = @_;
	my @rows;
	for (split /\n/, $section)
	{
		next if !/^\|(.*)\|$/;
		my @cells = map { s/^ +| +$//gr } split /(?<!\\)\|/, $1;
		push @rows, \@cells if "@cells" !~ /^[-: ]*$/;
	}
	return @rows;
}

sub quoted { return $_[0] =~ /`([^`]*)`/g }

# ---- settings ----

my %when     = (postmaster => 'restart', sighup => 'reload', user => 'session');
my %settings = map { $_->[0] => [ $_->[1] =~ s/ //gr, $when{ $_->[2] } // $_->[2] ] }
  rows(q{SELECT name, current_setting(name), context FROM pg_settings WHERE name LIKE 'pgq\_ext.%'});
my %printed = map { (quoted($_->[0]))[0] => [ $_->[1] =~ s/ //gr, $_->[2] ] } grep { $_->[0] =~ /`/ } table(section($reference, '## Settings'));
is_deeply(\%printed, \%settings, 'every setting, its default, and when a change counts');

# What a setting may be.
my %range = map { my ($name, @range) = @$_; $name => [ map { s/ //gr } @range ] } rows(q{
	SELECT name, current_setting(name), concat_ws(' ', min_val, unit), concat_ws(' ', max_val, unit)
	FROM pg_settings WHERE name LIKE 'pgq\_ext.%' AND vartype = 'integer'});
my %said_range = map { (quoted($_->[0]))[0] => [ map { s/ //gr } @$_[ 1 .. 3 ] ] } grep { @$_ == 5 && $_->[0] =~ /`/ }
  table(section(slurp_file('docs/limits.md'), '## Servers and databases'));
is_deeply(\%said_range, \%range, 'every setting, its default, and its least and greatest value');

# ---- functions ----

# (type, default) of each argument, in order: [name, type, default]
sub arguments
{
	my ($function) = @_;
	return rows(qq{
		SELECT name, type::regtype, pg_get_function_arg_default(oid, n::int)
		FROM pg_proc, unnest(proargnames[1:pronargs], proargtypes::oid[]) WITH ORDINALITY a (name, type, n)
		WHERE oid = '$function'::regproc ORDER BY n});
}

# Is what is printed, "5 min" or "'0'" or "none", that default?
sub same_default
{
	my ($argument, $text) = @_;
	my (undef, $type, $default) = @$argument;
	return $text =~ /^(NULL|null|now)$/ if $default eq '' || $default =~ /^NULL/;
	my $value = $text =~ s/^'(.*)'$/$1/r;
	return sql("SELECT '$value'::$type = ($default)") eq 't';
}

my %headings = map { (/^### `(\w+)/ ? ($1 => $_) : ()) } split /\n/, $reference;
my @functions = map { $_->[0] } rows(q{SELECT proname FROM pg_proc WHERE proname LIKE 'pgq\_%' AND pronamespace = 'public'::regnamespace ORDER BY 1});
is_deeply([ sort keys %headings ], \@functions, 'every function has a heading, and every heading a function');

for my $function (grep { $headings{$_} } @functions)
{
	my $section = section($reference, $headings{$function});
	my ($list, $result) = $headings{$function} =~ /^### `\w+\((.*)\) -> (.*)`$/;
	my @real  = arguments($function);
	my %named = map { $_->[0] => $_ } @real;
	my (@wrong, %seen);

	my @shown = split /, /, $list;
	my $rest  = @shown && $shown[-1] eq '...' ? pop @shown : '';
	for my $i (0 .. $#shown)
	{
		my ($name, $type, $default) = $shown[$i] =~ /^(\w+)(?: ([^= ]+))?(?: = (.*))?$/;
		my $argument = $real[$i];
		$seen{$name} = 1;
		push @wrong, "$shown[$i]: is it argument " . ($i + 1) . '?' if !$argument || $argument->[0] ne $name;
		push @wrong, "$shown[$i]: another type" if $type && $argument && sql("SELECT '$type'::regtype") ne $argument->[1];
		push @wrong, "$shown[$i]: another default" if defined $default && $argument && !same_default($argument, $default);
		push @wrong, "$shown[$i]: it has a default" if !defined $default && $argument && $argument->[2] ne '' && $argument->[2] !~ /^NULL/;
	}
	for my $row (grep { $_->[0] =~ /^`/ } table($section))
	{
		my @names    = quoted($row->[0]);
		my @defaults = split /, /, $row->[1];
		for my $i (0 .. $#names)
		{
			push @wrong, "$names[$i]: no such argument" and next if !$named{ $names[$i] };
			my $default = @defaults == @names ? $defaults[$i] : $row->[1];
			my $given   = $named{ $names[$i] }[2] ne '';
			push @wrong, "$names[$i]: another default" if $default eq 'required' ? $given : !same_default($named{ $names[$i] }, $default);
		}
	}
	$seen{$_} = 1 for quoted($section);
	push @wrong, "$_->[0] is not mentioned" for grep { !$seen{ $_->[0] } } @real;
	my $type = $result =~ s/^setof //r;
	my ($is) = rows("SELECT prorettype = '$type'::regtype, proretset FROM pg_proc WHERE oid = '$function'::regproc");
	push @wrong, "returns $result" if "@$is" ne ($result eq $type ? 't f' : 't t');
	is(join("\n", @wrong), '', "arguments and result of $function");
}

my ($job) = section($reference, $headings{pgq_claim}) =~ /^`claimed_job`:\s+`(.*?)`/ms;
is($job =~ s/\s+/ /gr, sql(q{SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'pgq_ext.claimed_job'::regclass}), 'what a claim returns');

# ---- stale leases and tokens ----

my %answer = ('PQ001' => 'error PQ001', '{}' => 'the id is left out', 'stale' => q{`'stale'`});
my %stale  = map { (quoted($_->[0]))[0] => $_->[1] } grep { $_->[0] =~ /`/ } table(section($reference, '### Stale leases and tokens'));
my %tested = map { /^ (pgq_\w+) +\| +(?!pgq_)(\S+) +\| / ? ($1 => $answer{$2} // $2) : () } split /\n/, slurp_file('expected/stale.out');
is_deeply(\%stale, \%tested, 'what a stale lease or token does in each verb is what the test stale shows');

# ---- views and tables ----

my $views = section($reference, '## Views and tables in schema `pgq_ext`');
my %row   = map { my $text = join ' | ', @$_; map { $_ => $text } quoted($_->[0]) } table($views);
for my $relation (rows(q{SELECT relname, relkind, string_agg(attname, ' ' ORDER BY attnum) FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
	WHERE relnamespace = 'pgq_ext'::regnamespace AND relkind IN ('v', 'r', 'p') AND NOT relispartition AND attnum > 0 GROUP BY 1, 2 ORDER BY 1}))
{
	my ($name, $kind, $columns) = @$relation;
	my $row = $row{$name};
	ok($row, "$name is in the reference") or next;
	next if $kind ne 'v' && $name ne 'dead_job' || $row =~ /internal/i;
	is(join(' ', grep { $row !~ /\b$_\b/ } split / /, $columns), '', "... with every column");
}
is(join(' ', grep { sql("SELECT to_regclass('pgq_ext.$_') IS NULL AND to_regproc('pgq_ext.$_') IS NULL") eq 't' } sort keys %row), '', 'and nothing else');
is(join(' ', grep { !$row{$_} } map { $_->[0] } rows(q{SELECT proname FROM pg_proc WHERE pronamespace = 'pgq_ext'::regnamespace ORDER BY 1})), '', 'functions of the schema, too');

# ---- sizes ----

my %costs = map { $_->[0] => $_->[1] } rows('SELECT guc, entry_bytes FROM pgq_ext.capacity WHERE entry_bytes > 0');
my %is    = map { $_->[0] => $_->[1] } rows(q{SELECT name, setting FROM pg_settings});
# Those that are there whatever is set: since PostgreSQL 18 also all I/O workers that there may be, and a setting for autovacuum's.
my $others = exists $is{io_method} ? 40 : 6;
my $processes = $is{max_connections} + $is{max_worker_processes} + ($is{autovacuum_worker_slots} // $is{autovacuum_max_workers}) + $is{max_wal_senders} + $others;
my %bytes = (
	'pgq_ext.max_databases'     => $costs{'pgq_ext.max_databases'},
	'pgq_ext.window_size'       => $costs{'pgq_ext.window_size'} / $is{'pgq_ext.max_queues'},
	'pgq_ext.timer_size'        => $costs{'pgq_ext.timer_size'} / $is{'pgq_ext.max_queues'},
	'pgq_ext.max_leases'        => $costs{'pgq_ext.max_leases'},
	'pgq_ext.max_claim_queues'  => $costs{'pgq_ext.max_claim_queues'} / $processes,
	'max_connections'           => $costs{'pgq_ext.max_claim_queues'} / $processes,
	'pgq_ext.max_locks'         => $costs{'pgq_ext.max_locks'},
	'pgq_ext.max_rates'         => $costs{'pgq_ext.max_rates'},
	'pgq_ext.max_watched_batches' => $costs{'pgq_ext.max_watched_batches'},
	'max_prepared_transactions' => $costs{max_prepared_transactions} / $is{'pgq_ext.max_queues'},
);
$bytes{'pgq_ext.max_queues'} = $costs{'pgq_ext.max_queues'} - $bytes{'pgq_ext.window_size'} * $is{'pgq_ext.window_size'} - $bytes{'pgq_ext.timer_size'} * $is{'pgq_ext.timer_size'};

# Two digits, rounded up.
sub about_ok
{
	my ($what, $printed, $is) = @_;
	ok(defined $printed && $printed >= $is * 0.98 && $printed <= $is * 1.12, "$what: " . ($printed // 'nothing') . " is about $is");
	return;
}

my $sizing = section($operations, '## Sizing');
my %said;
for my $row (table($sizing))
{
	my ($name)  = quoted($row->[0]);
	my ($bytes) = $row->[1] =~ /(\d+) bytes/;
	$said{$name} = $bytes if $name && $bytes;
}
is_deeply([ sort keys %said ], [ sort keys %bytes ], 'what one more costs is said of every bound');
about_ok("one more of $_", $said{$_}, $bytes{$_}) for sort keys %bytes;
my $text   = $sizing =~ s/\s+/ /gr;
my %each;
@each{qw(window timer)} = $text =~ /\(window_size \* (\d+) \+ timer_size \* (\d+)\)`/;
about_ok("... in the sum, $_", $each{$_}, $bytes{"pgq_ext.${_}_size"}) for sort keys %each;
my ($total) = $text =~ /with the defaults about (\d+) MB/;
about_ok('all of it in MB', $total, sql(q{SELECT round(sum(entry_bytes * bound) / 1e6, 1) FROM pgq_ext.capacity
	WHERE guc NOT IN ('pgq_ext.window_size', 'pgq_ext.timer_size')}));
my ($first) = $text =~ /just started has about (\d+) MB/;
my ($faq)   = section(slurp_file('docs/faq.md'), '### How much memory and disk does it take?') =~ s/\s+/ /gr;
like($faq, qr/takes $total MB of shared memory, .* uses $first MB/, '... also in the answers to questions');
my ($all, $allocated) = @{ (rows(q{SELECT sum(entry_bytes * bound) FILTER (WHERE guc NOT IN ('pgq_ext.window_size', 'pgq_ext.timer_size')),
	sum(entry_bytes * bound) FILTER (WHERE name = 'leases') + (SELECT sum(size) FROM pg_shmem_allocations WHERE name LIKE 'pgq\_ext%' AND name NOT IN ('pgq_ext groups', 'pgq_ext leases'))
	FROM pgq_ext.capacity}))[0] };
cmp_ok(abs($all / $allocated - 1), '<', 0.02, "... and it is what is allocated: $all, $allocated");
unlike(section($reference, '## Settings'), qr/\d bytes|\d kB each/, 'sizes are said in one place');

# ---- patterns of topics ----

create_queue($node, 'matched');
for my $row (table(section(slurp_file('docs/topics.md'), '## Topics and patterns')))
{
	my ($pattern) = quoted($row->[0]);
	next if !$pattern;
	sql("SELECT pgq_bind('$pattern', 'matched')");
	is(sql("SELECT count(*) FROM pgq_route('$_')"), 1, "the pattern $pattern matches $_") for quoted($row->[1]);
	is(sql("SELECT count(*) FROM pgq_route('$_')"), 0, "the pattern $pattern does not match $_") for quoted($row->[2]);
	sql("SELECT pgq_unbind('$pattern', 'matched')");
}

# ---- the same limit on two pages ----

like(slurp_file('docs/handlers.md') =~ s/\s+/ /gr, qr/nine tenths of the `max_runtime` of the queue are shorter/, 'the time of a call');
like(slurp_file('docs/limits.md'), qr/^\| time of a call .* nine tenths of the option `max_runtime`/m, '... is the same on both pages');

# ---- what was measured ----

my $scaling  = slurp_file('docs/scaling.md');
my %measured = map { $_ => 1 } map { @$_ } table(slurp_file('docs/benchmarks.md'));
my @quoted   = grep { /\d/ } map { $_->[1] } table(section($scaling, '## When one server is enough'));
my @bytes    = map { @$_ } [ $scaling =~ /(\d+) bytes of WAL for the life of a job, (\d+) in batches/ ], [ $scaling =~ /\((\d+) and (\d+) bytes a job/ ];
is(scalar @quoted, 5, 'scaling.md quotes what was measured');
is(scalar @bytes, 4, '... and bytes');
is(join(' ', grep { !$measured{$_} } @quoted, @bytes), '', '... as benchmarks.md has it');

# README compares with others.
my %of_any = map { $_ => 1 } map { @$_ } map { table(slurp_file($_)) } glob 'docs/benchmarks*.md';
my @ratios = map { @$_[ 1 .. $#$_ ] } grep { $_->[1] =~ /^[\d.]+$/ } table(section(slurp_file('README.md'), '## Beside other queues'));
is(scalar @ratios, 16, 'README compares with four others, in four ways');
is(join(' ', grep { !$of_any{$_} } @ratios), '', '... as the benchmarks have it');

# WAL of a job is said nowhere else, unless benchmarks.md has that number.
for my $page (grep { !/benchmarks/ } 'README.md', glob 'docs/*.md')
{
	my @said = map { /\bWAL\b/ ? /(\d[\d,]*)(?: and \d+)? bytes/g : () } split /\n\n|\n(?=\|)/, slurp_file($page);
	is(join(' ', grep { !$measured{$_} } @said), '', "bytes of WAL in $page are measured");
}

# A million jobs a second, of which each server does so many.
my %for_a_million = map { $_->[0] => [ map { s/,//gr } @$_[ 1, 2 ] ] } table(section($scaling, '## What it costs, and where it ends'));
my $one = $for_a_million{'jobs/s of one server with two cores, measured'};
is("@$one", join(' ', map { s/,//gr } @quoted[ 0, 3 ]), '... also where it is computed with');
is("@{ $for_a_million{'servers with two cores that 1,000,000 jobs/s need'} }", join(' ', map { ceil(1e6 / $_) } @$one), '... how many servers it takes');

$node->stop;
done_testing();
