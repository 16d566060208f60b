# Python, psycopg 3
use strict;
use warnings;
use ClientTest;

worker_test(
	'examples/worker_psycopg.py',
	command => sub { return ('/usr/bin/python3', $_[0]) },
	odd     => [ 'INSERT INTO', q{    if mail["to"].startswith("odd"): raise ValueError("odd \0 \udce9 text")} ]);
