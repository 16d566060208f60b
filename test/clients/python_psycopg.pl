# Python, psycopg 3
use strict;
use warnings;
use ClientTest;

worker_test([ '/usr/bin/python3', 'examples/worker_psycopg.py' ], batch => 3);
