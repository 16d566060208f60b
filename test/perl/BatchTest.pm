# Shared by the tests of batches: batches with callbacks, their members, and the callbacks that have come. The callbacks stay in the
# queue "events", since nobody claims them.
package BatchTest;
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;
use Exporter 'import';

our @EXPORT = qw(use_node sql batch callback add_sql add close_batch full_batch claim ack ack_all events_sql events settle events_are $callbacks);

my $node;

# All that is below is done on this node.
sub use_node { ($node) = @_; return $node }
sub sql { return $node->safe_psql('postgres', $_[0]) }

# Returns the argument of pgq_create_batch for a callback.
sub callback { my ($event, $queue) = @_; return sprintf q{on_%s => '{"queue": "%s", "payload": "%s"}'}, $event, $queue // 'events', $event }

# All three callbacks.
our $callbacks = join ', ', map { callback($_) } qw(success failure finish);

# Returns the id of a new batch with these callbacks.
sub batch { return sql('SELECT pgq_create_batch(' . ($_[0] // $callbacks) . ')') }
sub close_batch { return sql("SELECT pgq_close_batch($_[0])") }

# Adds a member to the queue: q if none is given.
sub add_sql { my ($batch, $queue) = @_; return sprintf q{SELECT pgq_enqueue('%s', '"member"', batch => %d)}, $queue // 'q', $batch }
sub add { return sql(add_sql(@_)) }
sub full_batch { my ($n, $queue) = @_; my $batch = batch(); add($batch, $queue) for 1 .. $n; return $batch }

# Claims one job of the queue, and returns the arguments of pgq_ack.
sub claim { my ($queue, $more) = @_; return sql(sprintf q{SELECT job_id || ', ' || lease FROM pgq_claim('%s' %s)}, $queue // 'q', $more // '') }
sub ack { return sql("SELECT pgq_ack($_[0])") }
# Returns how many jobs were acknowledged.
sub ack_all { my ($queue) = @_; return scalar drain($node, $queue // 'q') }

# The events whose callbacks were enqueued: an expression, and its value.
sub events_sql { return "(SELECT coalesce(string_agg(headers->>'event', ' ' ORDER BY headers->>'event'), '') FROM pgq_ext.job WHERE headers->>'batch' = '$_[0]')" }
sub events { return sql('SELECT ' . events_sql($_[0])) }

# Waits until the scheduler has looked at all batches that it was told of before: two empty batches, one after the other, have got
# their callbacks.
sub settle
{
	for (1 .. 2)
	{
		my $batch = batch(callback('finish'));
		close_batch($batch);
		wait_for($node, events_sql($batch) . q{ = 'finish'});
	}
	return;
}

# Checks that these callbacks have come, and no others.
sub events_are
{
	my ($batch, $expected, $what) = @_;
	wait_for($node, events_sql($batch) . " = '$expected'") if $expected ne '';
	settle();
	return is(events($batch), $expected, $what);
}

1;
