#include "action.h"

#include "text.h"

namespace top {

namespace {

constexpr DeedName kNames[] = {
	{Deed::pause, 'p', "pause", "pgq_pause_queue"},
	{Deed::resume, 'r', "resume", "pgq_resume_queue"},
	{Deed::redrive, 'd', "redrive", "pgq_redrive"},
	{Deed::retry, 't', "retry", "pgq_retry"},
	{Deed::cancel, 'c', "cancel", "pgq_cancel"},
};

std::string
quoted(const std::string &name)
{
	return '"' + name + '"';
}

std::string
some(Count n, const char *things)
{
	return n ? std::to_string(*n) + " " + things : std::string("all ") + things;
}

std::string
cancel_question(const Action &action)
{
	std::string of_queue = " of " + queue_of(action) + "?";
	if (action.target.is_dead)
		return "Delete " + job_of(action) + of_queue + " Its payload is lost.";
	std::string worker =
		action.target.worker.empty() ? "its worker" : "worker " + quoted(action.target.worker);
	return "Cancel " + job_of(action) + of_queue + " It is ended for good, and the lease of " +
		   worker + " revoked.";
}

} // namespace

std::string
queue_of(const Action &action)
{
	return "queue " + quoted(action.target.queue);
}

std::string
job_of(const Action &action)
{
	std::string id = std::to_string(action.target.job_id);
	return (action.target.is_dead ? "dead letter " : "job ") + id;
}

const DeedName &
name_of(Deed deed)
{
	return kNames[static_cast<size_t>(deed)];
}

std::string
forbidden(Deed deed, const Snapshot &snapshot, const std::string &queue)
{
	const char *function = name_of(deed).function;
	auto found = snapshot.functions.find(function);
	if (snapshot.server.is_standby)
		return "the server is a standby";
	if (found == snapshot.functions.end())
		return std::string("there is no function ") + function;
	if (!found->second.may_execute)
		return "role " + snapshot.server.role + " may not execute " + function;
	auto known = snapshot.queues.find(queue);
	if (known != snapshot.queues.end() && known->second.is_closed)
		return "role " + snapshot.server.role + " has not the right admin on queue " +
			   quoted(queue);
	return "";
}

std::string
question_of(const Action &action)
{
	switch (action.deed)
	{
		case Deed::pause:
			return "Pause " + queue_of(action) + "? " + some(action.target.ready, "ready jobs") +
				   " wait until it is resumed; those in work go on.";
		case Deed::resume:
			return "Resume " + queue_of(action) + "? " + some(action.target.ready, "ready jobs") +
				   " go out again.";
		case Deed::redrive:
			return "Bring back " + some(action.target.dead, "dead letters") + " of " +
				   queue_of(action) + "? They are jobs again, with all their attempts.";
		case Deed::retry:
			return "Retry " + job_of(action) + " of " + queue_of(action) +
				   "? It is a job again, with all its attempts.";
		case Deed::cancel:
			return cancel_question(action);
	}
	return "";
}

std::string
statement_of(const Action &action, const Snapshot &snapshot)
{
	bool is_of_job = action.deed == Deed::retry || action.deed == Deed::cancel;
	std::string argument =
		is_of_job ? std::to_string(action.target.job_id) : literal(action.target.queue);
	return "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL statement_timeout = '" +
		   std::to_string(kSecondsForAction) + "s'; SELECT " +
		   snapshot.functions.at(name_of(action.deed).function).called + "(" + argument +
		   ") AS result; COMMIT";
}

} // namespace top
