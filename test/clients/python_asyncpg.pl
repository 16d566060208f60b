# Python, asyncpg: ten jobs at a time
use strict;
use warnings;
use ClientTest;

worker_test([ '/usr/bin/python3', 'examples/worker_asyncpg.py' ], at_once => 10);
