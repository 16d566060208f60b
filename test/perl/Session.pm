# Sessions of psql that can be left waiting for their answer. PostgreSQL::Test::BackgroundPsql waits for each; what is needed
# of its insides to do otherwise is used here and nowhere else (test/conventions.sh), since other versions of the server may
# have others.
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

# The time in which an answer has to come begins anew.
sub renew_timeout
{
	my ($session) = @_;
	$session->{timeout}->start;
	return;
}

# Send without waiting for the answer.
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

# The answer to what was sent, (output, errors); also when the connection broke meanwhile.
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

# The client is gone without a word, as after a power failure.
sub kill_client
{
	my ($session) = @_;
	$session->{run}->signal('KILL');
	eval { $session->{run}->finish };
	return;
}

1;
