# PHP, PDO
use strict;
use warnings;
use ClientTest;

worker_test([ '/usr/bin/php', 'examples/worker.php' ], batch => 3);
