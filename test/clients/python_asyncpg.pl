# Python, asyncpg: ten jobs at a time
use strict;
use warnings;
use ClientTest;

worker_test(
	'examples/worker_asyncpg.py',
	command => sub {
		my ($file, $way, $label) = @_;
		return ('env', 'DATABASE_URL=' . join(' ', map { database_url($way, $label, $_) } hosts_of($way)), '/usr/bin/python3', $file);
	},
	odd     => [ 'INSERT INTO', q{    if mail["to"].startswith("odd"): raise ValueError("odd \0 \udce9 text")} ],
	at_once => 10);
