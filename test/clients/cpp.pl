# C++, libpq
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use ClientTest;

my $dir = PostgreSQL::Test::Utils::tempdir_short();
build('g++', '-std=c++20', '-Wall', '-Wextra', '-Werror', '-I/usr/include/postgresql', 'examples/worker.cpp', '-lpq', '-o', "$dir/worker");
worker_test(["$dir/worker"], batch => 3);
