/*
 * Actions on a queue or a job: which role may run them, the question before, and the message after.
 */
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

/* The object of an action: a queue, or a job of it. */
struct Target
{
	std::string queue;
	int64_t job_id = 0;
	/* Numbers of jobs, or the worker of the job, for the question. */
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

/* The object in words: queue "mail", job 17, dead letter 17. */
std::string queue_of(const Action &action);
std::string job_of(const Action &action);

/*
 * Return why the role may not run the action; empty: it may, as far as is known. queue: check the
 * right on that queue, too, if not empty.
 */
std::string forbidden(Deed deed, const Snapshot &snapshot, const std::string &queue);

/* The question names everything that the action does. */
std::string question_of(const Action &action);
std::string statement_of(const Action &action, const Snapshot &snapshot);
/* Return what was done, or the error. */
std::string outcome_of(const Action &action, const Answer &answer);

/* Statement timeout of an action, in seconds. */
constexpr int kSecondsForAction = 60;

} // namespace top
