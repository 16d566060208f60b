# An interval that is added to a time is added as PostgreSQL does: by the calendar of the session's time zone.
use strict;
use warnings;
use PgqTest;
use ClockTest;
use Test::More;
use Time::Local;

my $node = clock_node('calendar');
create_queue($node, 'c', 'max_attempts => 100');
my $year = (gmtime)[5] + 1901;

# Half an hour after noon UTC, and so some minutes from a change of the hour.
sub set_date { my ($day, $month) = @_; set_clock($node, timegm(0, 30, 12, $day, $month - 1, $year) - time); return }

my $zone;
sub sql { return scalar $node->safe_psql('postgres', "SET TimeZone = '$zone'; $_[0]") }

# Of one job, whatever the function: who is told the same interval says the same.
my %verbs = (
	'pgq_enqueue'               => q{SELECT pgq_enqueue('c', '1', delay => _I_)},
	'pgq_enqueue_many'          => q{SELECT pgq_enqueue_many('c', jsonb_build_array(jsonb_build_object('payload', 1, 'delay', _I_::text)))},
	'pgq_fail'                  => q{SELECT pgq_enqueue('c', '1'); SELECT pgq_fail(job_id, lease, retry_in => _I_) FROM pgq_claim('c')},
	'pgq_release'               => q{SELECT pgq_enqueue('c', '1'); SELECT pgq_release(job_id, lease, _I_) FROM pgq_claim('c')},
	'pgq_retry'                 => q{SELECT pgq_enqueue('c', '1', delay => '2 days'); SELECT pgq_retry(job_id, _I_) FROM pgq_ext.job},
	'pgq_retry, of a dead one'  => q{SELECT pgq_enqueue('c', '1'); SELECT pgq_fail(job_id, lease, retry => false) FROM pgq_claim('c'); SELECT pgq_retry(job_id, _I_) FROM pgq_ext.dead_job},
	'pgq_fail, of a lost lease' => q{SELECT pgq_enqueue('c', '1'); BEGIN; SELECT job_id, lease FROM pgq_claim('c') \gset
		ROLLBACK; SELECT pgq_fail(:job_id, :lease, retry_in => _I_)},
	'expires_in' => q{SELECT pgq_enqueue('c', '1', expires_in => _I_)},
	'unique_for' => q{SELECT pgq_enqueue('c', '1', unique_key => 'k', unique_for => _I_)});
my %table = (expires_in => 'expires_at FROM pgq_ext.job', unique_for => 'until FROM pgq_ext.unique_key');

sub is_moment
{
	my ($interval, $expected) = @_;
	for my $verb (sort keys %verbs)
	{
		my $what = $table{$verb} // 'run_at FROM pgq_ext.job';
		sql("\\o /dev/null\n" . $verbs{$verb} =~ s/_I_/'$interval'/gr);
		is(sql("SELECT to_char(moment, 'MM-DD HH24') FROM (SELECT $what) r(moment)"), $expected, "$verb, $interval in $zone");
		sql(q{SELECT pgq_purge_queue('c'); DELETE FROM pgq_ext.unique_key});
	}
	return;
}

# An hour is taken off on the second Sunday of March, and given back on the first of November.
$zone = 'America/New_York';
sub sunday { my ($nth, $month) = @_; return 7 * $nth - (gmtime(timegm(0, 0, 12, 7, $month - 1, $year)))[6] }
set_date(sunday(2, 3) - 1, 3);
is_moment('1 day', sprintf '03-%02d 07', sunday(2, 3));
is_moment('24 hours', sprintf '03-%02d 08', sunday(2, 3));
set_date(sunday(1, 11) - 1, 11);
is_moment('1 day', sprintf '11-%02d 08', sunday(1, 11));
is_moment('24 hours', sprintf '11-%02d 07', sunday(1, 11));

$zone = 'UTC';
set_date(31, 12);
is_moment('1 month', '01-31 12');
is_moment('2 months', $year % 4 == 3 ? '02-29 12' : '02-28 12');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pgq_check()'), '0', 'pgq_check() finds nothing');
done_testing();
