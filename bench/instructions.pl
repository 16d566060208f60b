#!/usr/bin/perl
# Writes a new baseline of bench/instructions.sh: the column of a version of PostgreSQL in bench/instructions.tsv, and the table in
# docs/benchmarks.md. Called by bench/instructions.sh.
#
#   bench/instructions.pl VERSION FILE      FILE: a call and its count in each line
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Results;

my ($version, $file) = @ARGV;
my $baseline = "$FindBin::Bin/instructions.tsv";
my $page = "$FindBin::Bin/../docs/benchmarks.md";

sub lines
{
	open my $in, '<', $_[0] or return;
	chomp(my @lines = <$in>);
	return map { [ split /\t/, $_, -1 ] } @lines;
}

my ($head, @old) = lines($baseline);
my (undef, @versions) = $head ? @$head : ();
my %count = map { my ($call, @counts) = @$_; my %of; @of{@versions} = @counts; $call => \%of } @old;
my @new = lines($file);
$count{ $_->[0] }{$version} = $_->[1] for @new;
@versions = sort { $a <=> $b } keys %{ { map { $_ => 1 } @versions, $version } };

open my $out, '>', $baseline or die "$baseline: $!";
print $out join("\t", 'call', @versions), "\n";
print $out join("\t", $_->[0], map { $_ // '' } @{ $count{ $_->[0] } }{@versions}), "\n" for @new;
close $out;

# The section is the last of the page.
open my $in, '<', $page or die "$page: $!";
my $text = do { local $/; <$in> };
$text =~ s/\n*(\n## Instructions\n.*)?\z/\n/s;
open $out, '>', $page or die "$page: $!";
print $out "$text\n", instructions_section($baseline);
close $out;
