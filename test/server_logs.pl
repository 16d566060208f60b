#!/usr/bin/perl
# server_logs.pl EXPECTED LOG...: prints what a server should not have said; exit status 1 if it did.
use strict;
use warnings;

my $expected_file = shift;
open my $in, '<', $expected_file or die "$expected_file: $!\n";
my @expected = map { chomp; /^\s*(?:#|$)/ ? () : qr/$_/ } <$in>;

my $severity = qr/DEBUG|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC|DETAIL|HINT|QUERY|CONTEXT|LOCATION|STATEMENT/;

# Our own crashes; signals that tests send (9, 15, 3) are theirs to judge.
my $crash = qr/was terminated by signal (?:4|5|6|7|8|11)\b/;

my $status = 0;
while (my $line = <>)
{
	my $bad = $line =~ /^TRAP: |ERROR: \w+Sanitizer: | runtime error: |^ +#\d+ 0x/;
	if ($line =~ /^\S.*?\b($severity):  (.*)/)
	{
		my ($level, $text) = ($1, $2);
		$bad = $level eq 'WARNING' || $level eq 'PANIC' || ($level eq 'LOG' && $text =~ $crash);
	}
	next if !$bad || grep { $line =~ $_ } @expected;
	print "$ARGV: $line";
	$status = 1;
}
exit $status;
