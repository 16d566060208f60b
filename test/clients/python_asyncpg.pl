# Python, asyncpg: ten jobs at a time
use strict;
use warnings;
use ClientTest;

worker_test(sub { return ('/usr/bin/python3', 'examples/worker_asyncpg.py', database_url(@_), $_[1]) });
