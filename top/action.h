/* What can be done to a queue or a job: who may, what is asked before, what is said after. */
#pragma once

#include "link.h"
#include "snapshot.h"

namespace top {

enum class Deed
{
	pause,
	resume,
	redrive,
	retry,
	cancel,
};

/* To what: a queue, or a job of it. */
struct Target
{
	std::string queue;
	int64_t job_id = 0;
	/* What there is of it, for the question. */
	Count ready = {}, dead = {};
	std::string worker = {};
	bool is_dead = false;
};

struct Action
{
	Deed deed;
	Target target;
};

struct DeedName
{
	Deed deed;
	char key;
	const char *verb;
	const char *function;
};
const DeedName &name_of(Deed deed);

/* As people say it: queue "mail", job 17, dead letter 17. */
std::string queue_of(const Action &action);
std::string job_of(const Action &action);

/* Why the role may not, to that queue if it is not empty. Empty: it may, as far as can be seen. */
std::string forbidden(Deed deed, const Snapshot &snapshot, const std::string &queue);

/* Names what will be done. */
std::string question_of(const Action &action);
std::string statement_of(const Action &action, const Snapshot &snapshot);
/* What was done, or why not. */
std::string outcome_of(const Action &action, const Answer &answer);

/* How long one may take, of the server's time. */
constexpr int kSecondsForAction = 60;

} // namespace top
