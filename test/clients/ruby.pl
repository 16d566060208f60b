# Ruby, pg
use strict;
use warnings;
use ClientTest;

worker_test([ '/usr/bin/ruby', '-W', 'examples/worker.rb' ], batch => 3);
