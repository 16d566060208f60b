# bash, psql
use strict;
use warnings;
use ClientTest;

worker_test(
	'examples/worker.sh',
	command => sub { return ('bash', $_[0]) },
	odd     => [ 'query <<-', q{[[ $payload != *odd* ]] || { printf 'odd \\0 \\xe9 text\\n'; return 1; }} ],
	helper  => 'psql');
