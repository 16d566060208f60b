# Python, asyncpg: ten jobs at a time
use strict;
use warnings;
use ClientTest;

worker_test(
	sub {
		my ($way, $label) = @_;
		return ('env', 'DATABASE_URL=' . join(' ', map { database_url($way, $label, $_) } hosts_of($way)), '/usr/bin/python3', 'examples/worker_asyncpg.py');
	},
	at_once => 10);
