/* The queues about which the ledger has rules of their own, and what it knows of their jobs. */
#pragma once

#include "clock.h"

#include <string>
#include <vector>

namespace torture {

/* The ledger's name of a job, stored in the payload, and known before the job is sent. */
using Key = int64_t;

/* The options of a queue for its groups; 0: no limit. */
struct GroupRules
{
	int concurrency = 0;
	int rate = 0; /* hand-outs of a group in kRatePeriod */
	bool fifo = false;
	bool fair = false;
};

/* A queue with rules for groups, and the rules with which the queue is created. */
struct GroupQueue
{
	std::string name;
	GroupRules rules;
	/* the queue has many groups, of which two get many jobs; otherwise it has three groups */
	bool crowd = false;
};

constexpr int kGroupRate = 2;
constexpr Time kRatePeriod = kSecond; /* of all queues */
inline const std::string kGroupedQueue = "grouped";
inline const std::string kFifoQueue = "fifo";
inline const std::string kFairQueue = "fair";
inline const std::string kLineQueue = "line";
inline const std::string kHeadsQueue = "heads";
inline const std::string kPacedQueue = "paced";
/* A queue whose claims fail only if a process is killed, so that the turns of groups are certain. */
inline const std::string kTurnsQueue = "turns";
/* The queue whose rules for groups the administrator changes. */
inline const std::string kRuledQueue = "ruled";
inline const std::vector<GroupQueue> kGroupQueues = {
	{kGroupedQueue, {.concurrency = 1, .rate = kGroupRate}},
	{kFifoQueue, {.fifo = true}},
	{kFairQueue, {.concurrency = 1, .fair = true}},
	{kLineQueue, {.concurrency = 1, .fifo = true}, true},
	{kHeadsQueue, {.fifo = true, .fair = true}, true},
	{kPacedQueue, {.rate = kGroupRate}, true},
	{kTurnsQueue, {.fair = true}, true},
	{kRuledQueue, {.concurrency = 2}, true},
};

/* A queue whose jobs have unique keys until they are finished. */
inline const std::string kKeyedQueue = "keyed";
/* A queue whose concurrency is raised and lowered, and a queue with a rate limit. */
inline const std::string kLimitedQueue = "limited";
inline const std::string kRatedQueue = "rated";
constexpr int kFirstLimit = 3;
constexpr int kRate = 10;
/* For how long a claim that failed may have set a job aside. */
constexpr Time kSetAside = 2 * kSecond;

/* Return the number of the unique key; 0: none. */
inline int
owner_of(const std::string &queue, Key key)
{
	static constexpr int kOwners = 5;
	return queue == kKeyedQueue ? 1 + static_cast<int>(key % kOwners) : 0;
}

/* Return the queue; NULL: it has no rules for groups. */
inline const GroupQueue *
group_queue(const std::string &name)
{
	for (const GroupQueue &queue : kGroupQueues)
		if (queue.name == name)
			return &queue;
	return nullptr;
}

/* Return the number of the job's group; 0: none. The ledger and the engine use the same groups. */
inline int
group_of(const std::string &queue, Key key)
{
	static constexpr int kGroups = 4;
	static constexpr int kBusy = 2;
	static constexpr int kCrowd = 40;
	const GroupQueue *of = group_queue(queue);
	if (of == nullptr)
		return 0;
	if (!of->crowd)
		return static_cast<int>(key % kGroups);
	if (key % 15 == 0)
		return 0;
	return static_cast<int>(key % 3 == 0 ? 1 + key / 3 % kBusy : 1 + kBusy + key / 3 % kCrowd);
}

/*
 * Check the groups of jobs in the order of their hand-outs. All jobs have the same priority, and
 * were ready before the first hand-out. Returns what is wrong with their turns; empty: nothing.
 */
std::string unfair_turn(const std::vector<int> &groups);

} // namespace torture
