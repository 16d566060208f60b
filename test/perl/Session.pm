# psql sessions that can be left waiting for an answer. PostgreSQL::Test::BackgroundPsql waits for each answer. To avoid
# that wait, this module uses the internals of BackgroundPsql, which differ between versions of the server. No other
# file may use these internals (test/conventions.sh).
package Session;
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use Test::More;
use Exporter 'import';

our @EXPORT = qw(session send_sql is_answered reply ask pid_of end_session kill_client renew_timeout);

sub session
{
	my ($node, $db) = @_;
	return $node->background_psql($db // 'postgres', on_error_stop => 0);
}

# Restarts the timeout of the answer.
sub renew_timeout
{
	my ($session) = @_;
	$session->{timeout}->start;
	return;
}

# Sends without waiting for the answer.
sub send_sql
{
	my ($session, $sql) = @_;
	renew_timeout($session);
	$session->{sent} = 'answered ' . ++$session->{query_cnt};
	$session->{stdin} .= "$sql\n;\n\\echo '$session->{sent}'\n\\warn '$session->{sent}'\n";
	$session->{run}->pump_nb;
	return;
}

sub is_answered
{
	my ($session) = @_;
	$session->{run}->pump_nb;
	return $session->{stderr} =~ /^\Q$session->{sent}\E\n/m;
}

# Returns the answer to the last statement, (output, errors), also if the connection broke.
sub reply
{
	my ($session) = @_;
	my $end = qr/^\Q$session->{sent}\E\n/m;
	eval {
		$session->{run}->pump until $session->{stdout} =~ $end && $session->{stderr} =~ $end;
		1;
	} or do
	{
		die "no answer in time: $@" if $session->{timeout}->is_expired;
	};
	my ($out, $err) = ($session->{stdout}, $session->{stderr});
	$session->{stdout} = $session->{stderr} = '';
	s/$end// for $out, $err;
	chomp($out, $err);
	note "answer: $out$err";
	return wantarray ? ($out, $err) : $out;
}

sub ask
{
	my ($session, $sql) = @_;
	send_sql($session, $sql);
	return reply($session);
}

sub pid_of
{
	my ($session) = @_;
	return scalar ask($session, 'SELECT pg_backend_pid()');
}

sub end_session
{
	my ($session) = @_;
	eval { $session->quit };
	return;
}

# Kills the client without closing the connection, as a power failure would.
sub kill_client
{
	my ($session) = @_;
	$session->{run}->signal('KILL');
	eval { $session->{run}->finish };
	return;
}

1;
