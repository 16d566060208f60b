#!/usr/bin/perl
# Measures the shape of the sources: how long functions and files are, which folder includes which, and who takes locks and
# reads clocks. Says what is not as it should be, one line each; nothing if all is well.
#
#   test/shape.pl CHECK         functions  files  comments  types  names  rooms  circles  locks  clocks
#   test/shape.pl figures       the figures of all functions, whatever they are
#
# The layout is clang-format's (.clang-format), but for nothing here it must be exact.
use strict;
use warnings;

my $longest_function  = 60;
my $long_function     = 25;    # 90 of 100 are not longer, and those that are say their steps
my $longest_file      = 450;

# Room => rooms it may include besides itself. Arrows point down, to rooms that stand below; "core" has no server, "pg" is the
# door to it.
my %may_include = (
	api       => [qw(worker mq row_changes topics handlers jobs batches dependencies schedules admin enqueue claim sync steps load ring rows catalog txn engine core pg)],
	worker    => [qw(handlers jobs batches dependencies schedules admin enqueue claim sync steps load ring rows catalog txn engine core pg)],
	row_changes => [qw(topics enqueue steps load rows catalog txn engine core pg)],
	mq        => [qw(jobs enqueue steps load rows catalog txn engine core pg)],
	topics    => [qw(enqueue steps load rows catalog txn engine core pg)],
	handlers  => [qw(claim jobs steps load ring rows catalog txn engine core pg)],
	jobs      => [qw(enqueue steps load ring rows catalog txn engine core pg)],
	batches   => [qw(enqueue steps load ring rows catalog txn engine core pg)],
	dependencies => [qw(steps load ring rows catalog txn engine core pg)],
	schedules => [qw(enqueue steps load ring rows catalog txn engine core pg)],
	admin     => [qw(steps load ring rows catalog txn engine core pg)],
	enqueue   => [qw(steps load ring rows catalog txn engine core pg)],
	claim     => [qw(load ring rows catalog txn engine core pg)],
	sync      => [qw(load rows catalog txn engine core pg)],
	steps     => [qw(load rows catalog txn engine core pg)],
	load      => [qw(rows catalog txn engine core pg)],
	ring      => [qw(rows catalog txn engine core pg)],
	rows      => [qw(catalog txn engine core pg)],
	catalog   => [qw(txn engine core pg)],
	txn       => [qw(engine core pg)],
	engine    => [qw(core pg)],
	pg        => [],
	core      => [],
	''        => [qw(api worker mq row_changes topics handlers jobs batches dependencies schedules admin enqueue claim sync steps load ring rows catalog txn engine core pg)],    # src/pgq_ext.cpp
);

# Files with private types that are still outside an unnamed namespace. This list may only become shorter.
my %types_are_linked = map { $_ => 1 } qw(src/engine/audit.cpp src/engine/starts_copy.cpp src/load/visit.cpp
  src/txn/refill_role.cpp);

my @files = split /\n/, `find src -name '*.cpp' -o -name '*.h' | sort`;
my @clients = split /\n/, `find shared top web test/torture test/pq bench/load -name '*.cpp' -o -name '*.h' | sort`;
# What is installed: its functions and files have a length.
my @shipped = (@files, grep { m{^(?:shared|top|web)/(?!page)} && !m{page_files} } @clients);
my %text;
for my $file (@files, @clients)
{
	open my $in, '<', $file or die "$file: $!";
	local $/;
	$text{$file} = <$in>;
}

# The same without what is in comments, strings and directives; lines and columns stay.
sub bare
{
	my ($text) = @_;
	my $blank = sub { my ($s) = @_; $s =~ s/[^\n]/ /g; return $s };
	$text =~ s{(/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'|^[ \t]*\#(?:\\\n|[^\n])*)}{$blank->($1)}gesm;
	return $text;
}

# ---- functions ----

# What stands before a brace: does it begin a function's body? Then its name.
sub function_name
{
	my ($head) = @_;
	return if $head =~ /^\s*(?:template\s*<[^{}]*>\s*)?(?:namespace|extern|struct|class|union|enum)\b(?!.*\))/s;
	1 while $head =~ s/\([^()]*\)/\x01/;
	my ($name) = $head =~ /([\w:~]+|operator\s*\S+?)\s*\x01/ or return;
	return if $head =~ /[^=!<>]=[^=]/ && $name !~ /^operator/;
	return $name;
}

# {file, line, name, lines, comment} of each
sub functions
{
	my @found;
	for my $file (@shipped)
	{
		my @original = split /\n/, $text{$file};
		my ($line, $head, @open) = (1, '');
		for my $token (split /([{};\n]|^[ \t]*(?:public|private|protected):)/m, bare($text{$file}))
		{
			if ($token eq "\n") { $line++; $head .= $token }
			elsif ($token eq '{')
			{
				my $inside = grep { $_->{name} } @open;
				my $name = $inside ? undef : function_name($head);
				push @open, { file => $file, line => $line, name => $name };
				$head = '';
			}
			elsif ($token eq '}')
			{
				my $block = pop @open or die "$file:$line: a brace too many";
				$head = '';
				next if !$block->{name};
				$block->{lines} = $line - $block->{line} + 1;
				$block->{comment} = grep { m{/\*|//} } @original[ $block->{line} - 1 .. $line - 1 ];
				push @found, $block;
			}
			elsif ($token eq ';' && $head !~ /\([^()]*$/) { $head = '' }
			elsif ($token !~ /:$/ || $token =~ /::$/) { $head .= $token }
		}
	}
	return @found;
}

# (how many, median, 90 of 100, longest)
sub figures
{
	my @lines = sort { $a <=> $b } map { $_->{lines} } @_;
	return (scalar @lines, $lines[ $#lines * 0.5 ], $lines[ $#lines * 0.9 ], $lines[-1]);
}

# ---- types ----

# What stands before a brace: does it begin a type's body? Then its name, or its kind if it has none.
sub type_name
{
	my ($head) = @_;
	1 while $head =~ s/\balignas\s*\([^()]*\)//;
	my ($kind, $name) = $head =~ /\b(struct|class|union|enum)(?:\s+(?:struct|class)\b)?\s*(\w*)(?:\s+final)?\s*(?::[^()=]*)?$/ or return;
	return $name || $kind;
}

# [line, name] of each type that this file makes known to the linker: not those in an unnamed namespace or in a function
sub linked_types
{
	my ($file) = @_;
	my ($line, $head, @open, @found) = (1, '');
	for my $token (split /([{};\n])/, bare($text{$file}))
	{
		if ($token eq "\n") { $line++; $head .= $token }
		elsif ($token eq '{')
		{
			my $type = type_name($head);
			push @found, [ $line, $type ] if $type && !grep { !$_ } @open;
			push @open, scalar($head =~ /\bnamespace\s+[\w:]+\s*$|\bextern\s*$/);
			$head = '';
		}
		elsif ($token eq '}') { pop @open; $head = '' }
		elsif ($token eq ';') { $head = '' }
		else { $head .= $token }
	}
	return @found;
}

# ---- includes ----

# worker/duty is a part of worker, and engine/named of engine: what may be included there may be here.
sub room_of { return $_[0] =~ m{^src/([^/]+)/} ? $1 : '' }
sub folder_of { return $_[0] =~ m{^(.+)/[^/]+$} ? $1 : '' }

# [file, line, header of the project] of each in these files
sub includes
{
	my @found;
	for my $file (@_)
	{
		my $line = 0;
		for (split /\n/, $text{$file})
		{
			$line++;
			my ($header) = /^\s*#\s*include\s*"([^"]+)"/ or next;
			my ($path) = grep { exists $text{$_} } "src/$header", $file =~ s{[^/]+$}{$header}r;
			push @found, [ $file, $line, $path ] if $path;
		}
	}
	return @found;
}

# Lines that match, in files that do not
sub lines_with
{
	my ($pattern, $not_in) = @_;
	my @found;
	for my $file (grep { !/$not_in/ } @files)
	{
		my $bare = bare($text{$file});
		while ($bare =~ /$pattern/g)
		{
			my $line = 1 + (substr($bare, 0, $-[0]) =~ tr/\n//);
			my $what = $&;
			$what =~ s/\s+/ /g;
			push @found, "$file:$line: $what";
		}
	}
	return @found;
}

my %check = (
	functions => sub {
		my @functions = functions();
		my (undef, undef, $p90) = figures(@functions);
		return ((map { "$_->{file}:$_->{line}: $_->{name} has $_->{lines} lines, more than $longest_function" }
			  sort { $b->{lines} <=> $a->{lines} } grep { $_->{lines} > $longest_function } @functions),
			$p90 > $long_function ? "90 of 100 functions have up to $p90 lines, more than $long_function" : ());
	},
	comments => sub {
		return map { "$_->{file}:$_->{line}: $_->{name} has $_->{lines} lines, and no comment says its steps" }
		  sort { $b->{lines} <=> $a->{lines} } grep { $_->{lines} > $long_function && !$_->{comment} } functions();
	},
	files => sub {
		return map { my $n = $text{$_} =~ tr/\n//; $n > $longest_file ? "$_ has $n lines, more than $longest_file" : () } @shipped;
	},
	# A type that a header declares is not private: other files have pointers to it.
	types => sub {
		my %declared;
		for my $header (grep { /\.h$/ } @files, @clients)
		{
			my $bare = bare($text{$header});
			$declared{$1} = 1 while $bare =~ /^[ \t]*(?:friend\s+)?(?:struct|class|union|enum(?:\s+class)?)\s+(\w+)\s*(?::\s*\w+\s*)?;/gm;
		}
		my @found;
		for my $file (grep { /\.cpp$/ && !$types_are_linked{$_} } @files, @clients)
		{
			push @found, map { "$file:$_->[0]: $_->[1]" } grep { !$declared{ $_->[1] } } linked_types($file);
		}
		return @found;
	},
	# The files of a room are compiled as one: a call could mean a function of that name in another file.
	names => sub {
		my (%files, @found);
		for (grep { $_->{file} =~ /\.cpp$/ && room_of($_->{file}) && $text{ $_->{file} } =~ /^\Q$_->{name}\E\(/m } functions())
		{
			$files{ room_of($_->{file}) . ": $_->{name}" }{ $_->{file} } = 1;
		}
		return map { my @in = sort keys %{ $files{$_} }; @in > 1 ? "$_ is in @in" : () } sort keys %files;
	},
	rooms => sub {
		my @found;
		for (includes(@files))
		{
			my ($file, $line, $header) = @$_;
			my ($from, $to) = (room_of($file), room_of($header));
			next if $from eq $to || grep { $_ eq $to } @{ $may_include{$from} // [] };
			push @found, "$file:$line: $from may not include $to ($header)";
		}
		return @found;
	},
	circles => sub {
		my %next;
		for (includes(@files, @clients))
		{
			my ($from, $to) = map { s/\.(cpp|h)$//r } $_->[0], $_->[2];
			$next{$from}{$to} = 1 if $from ne $to && folder_of($from) eq folder_of($to);
		}
		# A unit that can be reached from itself; each circle is told once, from its first unit.
		my %told;
		for my $start (sort keys %next)
		{
			my @paths = map { [ $start, $_ ] } sort keys %{ $next{$start} };
			my %seen;
			while (my $path = shift @paths)
			{
				my $at = $path->[-1];
				if ($at eq $start)
				{
					$told{ join ' ', sort @$path[ 1 .. $#$path ] } //= join ' -> ', @$path;
					last;
				}
				next if $seen{$at}++;
				push @paths, map { [ @$path, $_ ] } sort keys %{ $next{$at} // {} };
			}
		}
		return sort values %told;
	},
	# The registry's lock is another matter, and so are the server's own.
	locks => sub { return lines_with(qr/\b(?:with_lwlock|LWLock\w*Acquire\w*)\(\s*(?!shared->registry_lock\b|[A-Z]\w*Lock\b)[^,;{]*/, qr{^src/(engine|pg)/}) },
	clocks => sub {
		return lines_with(qr/\b(?:GetCurrentTimestamp|GetSQLCurrentTimestamp|INSTR_TIME_SET_CURRENT|gettimeofday|clock_gettime|time)\(/,
			qr{^src/pg/clock\.});
	},
);

my $what = $ARGV[0] // '';
if ($what eq 'figures')
{
	printf "%d functions: median %d, 90 of 100 up to %d, longest %d lines\n", figures(functions());
}
elsif ($check{$what})
{
	print "$_\n" for $check{$what}->();
}
else
{
	die "usage: test/shape.pl figures | " . join(' | ', sort keys %check) . "\n";
}
