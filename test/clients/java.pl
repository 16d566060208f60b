# Java, JDBC
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use ClientTest;

sub compile
{
	my ($file) = @_;
	my $classes = PostgreSQL::Test::Utils::tempdir_short();
	build('javac', '-d', $classes, $file);
	return $classes;
}

worker_test(
	'examples/Worker.java',
	build   => \&compile,
	command => sub {
		my ($classes, $way, $label) = @_;
		my ($address) = database_url($way, $label) =~ m{@(.*)\?};
		my $primary = $way eq 'direct' ? '&targetServerType=primary' : '';
		my $pooler = $way eq 'transaction' ? '&prepareThreshold=0&assumeMinServerVersion=9.0' : '';
		return ('java', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-Xmx64m', '-cp', "$classes:/usr/share/java/postgresql.jar", 'Worker',
			"jdbc:postgresql://$address?user=$ClientTest::user&ApplicationName=$label$primary$pooler");
	},
	odd => [ 'INSERT INTO', q{if (job.payload.contains("odd")) throw new SQLException("odd \0 \udce9 text");} ]);
