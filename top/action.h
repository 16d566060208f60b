/*
 * Actions on a queue or a job: which role may run an action, the question before the action, and
 * the message after it.
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

/* The object of an action: a queue, or a job of a queue. */
struct Target
{
	std::string queue;
	int64_t job_id = 0;
	/* Shown in the question: the numbers of jobs of the queue, or the worker of the job. */
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

/* Return the object of the action in words: queue "mail", job 17, dead letter 17. */
std::string queue_of(const Action &action);
std::string job_of(const Action &action);

/*
 * Return why the role may not run the action; empty if no reason is known. queue: if not empty,
 * check the right on that queue, too.
 */
std::string forbidden(Deed deed, const Snapshot &snapshot, const std::string &queue);

/*
 * Return the question that the user must confirm. The question names everything that the action
 * does.
 */
std::string question_of(const Action &action);
std::string statement_of(const Action &action, const Snapshot &snapshot);
/* Return a message that says what was done, or the error. */
std::string outcome_of(const Action &action, const Answer &answer);

/* Statement timeout of an action, in seconds. */
constexpr int kSecondsForAction = 60;

} // namespace top
