# bash, psql
use strict;
use warnings;
use ClientTest;

worker_test([ 'bash', 'examples/worker.sh' ], helper => 'psql');
