# PHP, PDO
use strict;
use warnings;
use ClientTest;

worker_test(
	'examples/worker.php',
	command => sub { return ('/usr/bin/php', $_[0]) },
	odd     => [ 'INSERT INTO', q{if (str_contains($job['payload'], 'odd')) throw new Exception("odd \0 \xe9 text");} ]);
