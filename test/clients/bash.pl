# bash, psql
use strict;
use warnings;
use ClientTest;

worker_test([ 'bash', 'examples/worker.sh' ], batch => 3, helper => 'psql');
