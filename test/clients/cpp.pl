# C++, libpq
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use ClientTest;

sub compile
{
	my ($file) = @_;
	my $program = PostgreSQL::Test::Utils::tempdir_short() . '/worker';
	build('g++', '-std=c++20', '-Wall', '-Wextra', '-Werror', '-I/usr/include/postgresql', $file, '-lpq', '-o', $program);
	return $program;
}

worker_test(
	'examples/worker.cpp',
	build   => \&compile,
	command => sub { return $_[0] },
	odd     => [ 'INSERT INTO', q{if (std::string(payload).find("odd") != std::string::npos) throw std::runtime_error("odd \xe9 text");} ]);
