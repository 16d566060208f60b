#!/usr/bin/perl
# Runs a command as long as something happens, and shows what it prints:
#
#   test/watch.pl SECONDS PATTERN COMMAND...
#
# Happens: the command prints something, or a file that matches PATTERN grows, such as the logs to which TAP tests write each test
# point. If nothing has happened for SECONDS the command hangs: it and all processes of its group are ended. There is no limit for
# the whole, since that would depend on the speed of the machine.
use strict;
use warnings;
use IO::Select;
use POSIX ();
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my ($limit, $pattern, @command) = @ARGV;
$| = 1;

pipe my $output, my $input or die "pipe: $!";
my $pid = fork // die "fork: $!";
if ($pid == 0)
{
	setpgrp;
	open STDOUT, '>&', $input or die $!;
	open STDERR, '>&', $input or die $!;
	close $output;
	exec @command or die "$command[0]: $!";
}
close $input;
$SIG{$_} = sub { kill TERM => -$pid; $limit = 0 } for qw(INT TERM HUP);

# show SECONDS: what comes within that time; false if nothing comes
sub show
{
	my ($seconds) = @_;
	IO::Select->new($output)->can_read($seconds) or return 0;
	my $text;
	if (!sysread $output, $text, 65536)
	{
		select undef, undef, undef, $seconds; # the command has closed its output
		return 0;
	}
	print $text;
	return 1;
}

# Sizes, since a file's times may come from another clock.
sub sizes { return join ' ', map { -s $_ // 0 } glob $pattern }

sub slurp
{
	open my $file, '<', $_[0] or return '';
	local $/;
	return <$file> // '';
}

# The processes of the group, a line each.
sub members
{
	my @members;
	for my $process (glob '/proc/[0-9]*')
	{
		next if slurp("$process/stat") !~ /\) \S+ \d+ $pid /;
		push @members, 'timeout: ' . slurp("$process/cmdline") =~ tr/\0/ /r . "\n";
	}
	return @members;
}

# Not the wall clock, which may be set.
sub now { return clock_gettime(CLOCK_MONOTONIC) }

my ($before, $last, $told) = ('', now(), 0);
while (waitpid($pid, POSIX::WNOHANG()) == 0)
{
	my $sizes = sizes();
	if (show(1) || $sizes ne $before)
	{
		($before, $last) = ($sizes, now());
	}
	elsif (now() - $last >= $limit)
	{
		print "timeout: nothing has happened for $limit s, these are ended:\n", members() if !$told++;
		kill $told > 10 ? 'KILL' : 'TERM', -$pid;
	}
}
my $status = $?;
1 while show(0.2);
exit($status & 127 ? 128 + ($status & 127) : $status >> 8);
