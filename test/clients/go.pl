# Go, pgx
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use ClientTest;

sub compile
{
	my ($file) = @_;
	my $program = PostgreSQL::Test::Utils::tempdir_short() . '/worker';
	build_go($program, $file);
	return $program;
}

worker_test(
	'examples/worker.go',
	build   => \&compile,
	command => sub {
		my ($program, $way, $label) = @_;
		my $cache = $way eq 'transaction' ? '&statement_cache_mode=describe' : '';
		return ('env', 'DATABASE_URL=' . database_url($way, $label) . $cache, $program);
	},
	odd => [ 'INSERT INTO', q{if strings.HasPrefix(mail.To, "odd") { return &os.PathError{Op: "odd \x00 \xe9 text", Path: "x", Err: os.ErrInvalid} }} ]);
