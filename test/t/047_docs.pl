# Runs the documentation: every fenced block of README.md, CONTRIBUTING.md and docs/*.md, as it is printed.
#
# The blocks of README.md run in an empty database. The blocks of each other page run in a database in which the first lines of
# README.md have been run, so it has the extension and the queue "mail". The blocks of a page run from top to bottom in one
# session of psql. The language of a block says how the block is run:
#
#   sql         pasted into psql: nothing but NOTICE may come to standard error
#   psql        what a terminal shows, "mail=> SELECT ...;" and the answer, which is compared
#   conf        lines for postgresql.conf, and a restart
#   sh          commands of a shell
#   python, js  a program; one that waits for jobs when there are none is sent SIGTERM, and leaves in peace, with no job in hand
#               (js only where node and its package pg are: they are too large to be installed for this alone)
#               Both find the libraries of clients/.
#   text        not to be run
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Cwd qw(getcwd);
use IPC::Run;
use PgqTest;

# Commands of a shell that are not run here, and why.
my @not_run = (
	[ qr/^(\w+=\S+ )*make( |$)/ => 'builds, installs, tests; only their targets are looked up' ],
	[ qr/^sudo / => 'installs packages: packaging/walk.sh does that' ],
	[ qr/^docker / => 'makes and runs containers' ],
	[ qr/^script\/setup_failover|^examples\/high-availability\// => 'of packages that nothing else needs: make check-failover runs these' ],
	[ qr/^(\w+=\S+ )*bench\/run\.sh / => 'takes 25 to 60 minutes' ],
	[ qr/^pgq-web / => 'runs until it is stopped: test/web runs it' ],
);

my %interpreter = (python => [ '/usr/bin/python3', '-W', 'error' ], js => ['node']);
my %suffix      = (python => 'py', js => 'js');

my $node = PostgreSQL::Test::Cluster->new('docs');
$node->init;
$node->start;
$ENV{PGHOST} = $node->host;
$ENV{PGPORT} = $node->port;
$ENV{PGUSER} = $node->safe_psql('postgres', 'SELECT current_user');

my $packages = PostgreSQL::Test::Utils::tempdir_short();
symlink getcwd() . '/clients/node', "$packages/pgq-ext" or die;
$ENV{NODE_PATH}  = join ':', grep { length } $packages, $ENV{NODE_PATH} // '';
$ENV{PYTHONPATH} = getcwd() . '/clients/python';

my ($session, $db);

# ---- pages and blocks ----

# [language, line, text] of each block
sub blocks
{
	my ($page) = @_;
	my (@blocks, $block);
	my $n = 0;
	for my $line (split /^/, slurp_file($page))
	{
		$n++;
		if ($line !~ /^\s*(```|~~~)/)
		{
			$block->[2] .= $line if $block;
		}
		elsif ($block)
		{
			push @blocks, $block;
			undef $block;
		}
		else
		{
			$block = [ $line =~ /^```(\w*)$/ ? $1 : 'unknown', $n, '' ];
		}
	}
	die "$page: a block has no end" if $block;
	return @blocks;
}

sub connect_psql
{
	end_session($session) if $session;
	$session = session($node, $db);
	return;
}

# ---- psql ----

# What went wrong, of what psql said.
sub complaints
{
	my ($err) = @_;
	$err =~ s/^psql:<stdin>:\d+: //mg;
	return join "\n", grep { !/^(NOTICE|DETAIL|HINT):  / } split /\n/, $err;
}

# What differs from reader to reader is no difference; nor is the width of columns.
sub comparable
{
	my ($text) = @_;
	for ($text)
	{
		s/^psql:<stdin>:\d+: //mg;
		s/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?([+-]\d\d)?/TIME/g;
		s/\d\d:\d\d:\d\d(\.\d+)?/INTERVAL/g;
		s/\b\d{15,16}\b/LEASE/g;
		s/\bprocess \d+/process PID/g;
		s/-+/-/g;
		s/[ \t]+/ /g;
		s/^ | $//mg;
		s/\n+/\n/g;
		s/^\n|\n$//g;
	}
	return $text;
}

# [statement, answer] of each statement that is shown
sub exchanges
{
	my ($text) = @_;
	my @exchanges;
	for my $line (split /^/, $text)
	{
		if ($line =~ s/^\w+=[*!]?[>#] //)
		{
			push @exchanges, [ $line, '' ];
			next;
		}
		die "no prompt before: $line" if !@exchanges;
		my $typed = $line =~ s/^\w+[-('"]\*?[>#] //;
		$exchanges[-1][ $typed ? 0 : 1 ] .= $line;
	}
	return @exchanges;
}

# nginx: settings of a proxy, which is not here
my %run = map { $_ => sub { pass("$_[0]: not to be run"); return } } 'text', 'nginx';

$run{sql} = sub {
	my ($where, $text) = @_;
	my (undef, $err) = ask($session, $text);
	is(complaints($err), '', "$where runs");
	like($text =~ s/--.*//gr, qr/(;|^.*\\\w.*)\s*\z/m, '... to its end');
	return;
};

$run{psql} = sub {
	my ($where, $text) = @_;
	ask($session, "\\set QUIET on\n\\pset format aligned\n\\pset tuples_only off\n\\set QUIET off");
	for my $exchange (exchanges($text))
	{
		my ($out, $err) = ask($session, $exchange->[0]);
		is(comparable("$err\n$out"), comparable($exchange->[1]), "$where: the answer to $exchange->[0]");
	}
	ask($session, "\\set QUIET on\n\\pset format unaligned\n\\pset tuples_only on");
	return;
};

# ---- settings, commands, programs ----

$run{conf} = sub {
	my ($where, $text) = @_;
	$node->append_conf('postgresql.conf', $text);
	end_session($session);
	$node->restart;
	$session = session($node, $db);
	while ($text =~ /^(\w+(?:\.\w+)?) *= *'?([^'#\n]*?)'? *(#.*)?$/mg)
	{
		is($node->safe_psql($db, "SHOW $1"), $2, "$where: $1");
	}
	return;
};

my %target = map { $_ => 1 } map { split /[\s\\]+/ } slurp_file('Makefile') =~ /^(?:SCRIPTED =|all )((?:.*\\\n)*.*?)(?::|$)/mg;

$run{sh} = sub {
	my ($where, $text) = @_;
	my $script = '';
	my $end; # of what a line that is not run reads
	for my $line (split /\n/, $text)
	{
		if (defined $end)
		{
			undef $end if $line eq $end;
			next;
		}
		my ($excuse) = grep { $line =~ $_->[0] } @not_run;
		$script .= "$line\n" if !$excuse;
		($end) = $line =~ /<<'(\w+)'$/ if $excuse;
		while ($line =~ /\bmake +([a-z][\w-]*)/g)
		{
			ok($target{$1}, "$where: make $1 is a target");
		}
	}
	return if $script !~ /\S/;
	local $ENV{PGDATABASE} = $db;
	my ($out, $err);
	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	my $status = IPC::Run::run([ 'bash', '-euo', 'pipefail', '-c', "cd $dir\n$script" ], '<', \undef, '>', \$out, '2>', \$err,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	ok($status, "$where runs") or diag($out, $err);
	return;
};

my $undone = 'SELECT sum(ready + leased) FROM pgq_ext.queue_status';
my $idle   = 'SELECT sum(waiting_claims) > 0 AND sum(ready + leased) = 0 FROM pgq_ext.queue_status';

sub run_program
{
	my ($where, $language, $text) = @_;
	local $ENV{PGDATABASE} = $db;
	my $file = "${PostgreSQL::Test::Utils::tmp_check}/program.$suffix{$language}";
	unlink $file;
	append_to_file($file, $text);
	my ($out, $err) = ('', '');
	my $program = IPC::Run::start([ @{ $interpreter{$language} }, $file ], '<', \undef, '>', \$out, '2>', \$err,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	while ($program->pumpable)
	{
		if ($node->safe_psql($db, $idle) eq 't')
		{
			note "$where waits for jobs: SIGTERM";
			$program->signal('TERM');
			last;
		}
		$program->pump_nb;
		select(undef, undef, undef, 0.05);
	}
	ok($program->finish && $err eq '', "$where runs") or diag($out, $err);
	is($node->safe_psql($db, $undone), '0', '... and does the work');
	note $out;
	return;
}

for my $language (keys %interpreter)
{
	$run{$language} = sub {
		my ($where, $text) = @_;
	  SKIP:
		{
			skip "$where: there is no node with its package pg", 1
			  if $language eq 'js' && system(q{node -e 'require("pg")' >/dev/null 2>&1}) != 0;
			run_program($where, $language, $text);
		}
		return;
	};
}

# ---- read ----

my @pages = ('README.md', 'CONTRIBUTING.md', grep { !m{docs/(migrate|upgrade).md} } sort glob 'docs/*.md'); # those: test/clients/migrate.pl, test/t/024_upgrade.pl
cmp_ok(scalar @pages, '>', 4, 'the pages are there');

for my $page (@pages)
{
	($db) = $page =~ /(\w+)\.md$/;
	$db = lc $db;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, q{CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('mail')}) if $page ne 'README.md';
	connect_psql();
	for my $block (blocks($page))
	{
		my ($language, $line, $text) = @$block;
		my $where = "$page:$line";
		my $run   = $run{$language};
		$run ? $run->($where, $text) : fail("$where: what is to be done with a block in \"$language\"?");
	}
	# There are more pages than databases have room by default.
	end_session($session);
	$session = undef;
	$node->safe_psql('postgres', "DROP DATABASE $db WITH (FORCE)");
}
$node->stop;
done_testing();
