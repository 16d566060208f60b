# Node, pg
use strict;
use warnings;
use ClientTest;

worker_test(
	'examples/worker.js',
	command => sub { return ('node', $_[0]) },
	odd     => [ 'INSERT INTO', q{if (payload.to.startsWith('odd')) throw new Error('odd \0 \udce9 text');} ]);
