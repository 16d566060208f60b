# Ruby, pg
use strict;
use warnings;
use ClientTest;

worker_test(
	'examples/worker.rb',
	command => sub { return ('/usr/bin/ruby', '-W', $_[0]) },
	odd     => [ 'INSERT INTO', q{  raise "odd \0 \xe9 text" if job['payload'].include?('odd')} ]);
