# A server whose wall clock can be set, while its monotonic clock goes on.
package ClockTest;
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PgqTest;
use Test::More;
use Exporter 'import';
use File::Basename;

our @EXPORT = qw(clock_node start_with_clock set_clock);

my $library;

sub file_of
{
	my ($node) = @_;
	return $node->basedir . '/clock';
}

# Sets the clock of all processes of the server to that many seconds from the machine's.
sub set_clock
{
	my ($node, $seconds) = @_;
	open my $file, '+<', file_of($node) or die "clock: $!";
	syswrite $file, pack('q', $seconds * 1_000_000);
	close $file;
	note "clock: $seconds s";
	return;
}

sub start_with_clock
{
	my ($node) = @_;
	local $ENV{LD_PRELOAD} = $library;
	local $ENV{CLOCK_FILE} = file_of($node);
	$node->start;
	return;
}

# Like pgq_node: returns a running server, with the machine's clock
sub clock_node
{
	my ($name, %options) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$library = $node->basedir . '/clock.so';
	system_or_bail('cc', '-shared', '-fPIC', '-O', '-o', $library, dirname(__FILE__) . '/clock.c', '-ldl');
	$node->init(%{ $options{init} // {} });
	$node->append_conf('postgresql.conf', $options{conf} // '');
	append_to_file(file_of($node), pack('q', 0));
	start_with_clock($node);
	$node->safe_psql('postgres', 'CREATE EXTENSION pgq_ext');
	return $node;
}

1;
