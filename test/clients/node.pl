# Node, pg
use strict;
use warnings;
use ClientTest;

worker_test([ 'node', 'examples/worker.js' ], batch => 3);
