#!/usr/bin/perl
# Compares the output of the tests of the original pgmq with the expected output, statement by statement:
#
#   compare.pl DIFFERENCES TESTS KIND RESULTS NAME...
#
# DIFFERENCES: the file with the known differences. TESTS: the folder with expected/ and KIND/ (sql or specs). RESULTS: the folder with
# the output. For each test, prints the statements with a difference that is not known, and then "ok NAME" or "not ok NAME". A rule that
# explains no difference is "not ok", too.
use v5.30;
use warnings;

my ($differences, $tests, $kind, $results, @names) = @ARGV;
my $suffix = $kind eq 'sql' ? 'sql' : 'spec';

# Each rule: { test, what => 'line', 'statement' or 'sometimes', pattern, used }.
sub rules
{
	my @rules;
	open my $file, '<', $differences or die "$differences: $!\n";
	while (<$file>)
	{
		chomp;
		next if /^#|^\s*$/;
		my ($test, $what, $pattern) = split ' ', $_, 3;
		die "$differences: line $. is no rule\n" if ($what // '') !~ /^(line|statement|sometimes)$/ || !defined $pattern;
		push @rules, { test => $test, what => $what, pattern => qr/$pattern/, used => 0 };
	}
	return @rules;
}

sub lines_of
{
	my ($path) = @_;
	open my $file, '<', $path or return;
	return grep { /\S/ } map { s/\s+$//r } <$file>;
}

# Cuts an output into statements: [text, line of result, ...]. The output of a test in SQL repeats each line of its script; the result of a
# statement comes after its last line. In the output of an isolation test, a statement is a step.
sub statements_of
{
	my ($output, @script) = @_;
	my @all = ([""]);
	for my $line (@$output)
	{
		my $begins = $kind eq 'sql' ? @script && $line eq $script[0] : $line =~ /^(step|starting permutation)\b/;
		if ($begins)
		{
			shift @script if $kind eq 'sql';
			# Go on with the statement of the line before, unless that was the last one of it.
			if ($kind eq 'sql' && @{ $all[-1] } == 1 && $all[-1][0] !~ /(^|;\s*)$/) { $all[-1][0] .= "\n$line" }
			else { push @all, [$line] }
		}
		else { push @{ $all[-1] }, $line }
	}
	return (\@all, scalar @script);
}

my @rules = rules();

# Returns the result of a statement, without the lines that are known to differ.
sub compared
{
	my ($test, $statement, $note) = @_;
	my @lines = @$statement[1 .. $#$statement];
	for my $rule (grep { $_->{test} eq $test && $_->{what} eq 'line' } @rules)
	{
		my @kept = grep { $_ !~ $rule->{pattern} } @lines;
		$rule->{used}++ if $note && @kept != @lines;
		@lines = @kept;
	}
	# Columns are as wide as their widest value, and a known difference may change that.
	return join "\n", map { s/-+/-/gr =~ s/\s+/ /gr =~ s/^ | $//gr } @lines;
}

# Compares a test. Returns its numbers: statements, those that differ as is known, and the others.
sub compare
{
	my ($name) = @_;
	my @script = $kind eq 'sql' ? lines_of("$tests/sql/$name.sql") : ();
	my @expected = lines_of("$tests/expected/$name.out");
	my @result = lines_of("$results/$name.out");
	my ($left, $unread_left) = statements_of(\@expected, @script);
	my ($right, $unread_right) = statements_of(\@result, @script);
	my ($n, $known, $unknown) = (0, 0, 0);
	if ($unread_left || $unread_right || @$left != @$right)
	{
		say "$name: the output is not whole";
		return (scalar @$left, 0, 1);
	}
	for my $i (0 .. $#$left)
	{
		my $text = $left->[$i][0];
		next if $text !~ ($kind eq 'sql' ? qr/;\s*$/ : qr/^step/);
		$n++;
		next if join("\n", @{ $left->[$i] }) eq join("\n", @{ $right->[$i] });
		my ($rule) = grep { $_->{test} eq $name && $_->{what} ne 'line' && $text =~ $_->{pattern} } @rules;
		$rule->{used}++ if $rule;
		if ($rule || compared($name, $left->[$i], 1) eq compared($name, $right->[$i], 1)) { $known++; next }
		$unknown++;
		say "$name: a difference that is not known, in", $text =~ s/^/\n    /gmr;
		say "  - $_" for @{ $left->[$i] }[1 .. $#{ $left->[$i] }];
		say "  + $_" for @{ $right->[$i] }[1 .. $#{ $right->[$i] }];
	}
	return ($n, $known, $unknown);
}

for my $name (@names)
{
	my ($n, $known, $unknown) = compare($name);
	my $ok = $unknown == 0 && $n > 0 ? 'ok' : 'not ok';
	say "$ok $name: $n statements, ", $n - $known - $unknown, " the same, $known known differences, $unknown others";
}
my %ran = map { $_ => 1 } @names;
# A rule without a difference would hide a later one.
say "not ok differences: no difference is explained by the rule \"$_->{test} $_->{what} $_->{pattern}\"" for grep { $ran{ $_->{test} } && $_->{what} ne 'sometimes' && !$_->{used} } @rules;
