/* Data that all actors share. */
#pragma once

#include "batched.h"
#include "cluster.h"
#include "coordination.h"
#include "graphed.h"
#include "handled.h"
#include "ledger.h"
#include "timetable.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>

namespace torture {

/* Lets the actors go on, or holds them between two turns. */
class Gate
{
public:
	/* Called by an actor between turns. Returns false if the run is over. */
	bool pass();
	void join();
	void leave();
	/* Wait until all actors wait. Returns false if they do not within kPatience. */
	bool close();
	void open();
	void end();

private:
	std::mutex mutex;
	std::condition_variable changed;
	int actors = 0;
	int waiting = 0;
	bool closed = false;
	bool over = false;
};

struct Counters
{
	std::atomic<long> enqueued = 0;
	std::atomic<long> claims = 0;
	std::atomic<long> acks = 0;
	std::atomic<long> fails = 0;
	std::atomic<long> extends = 0;
	std::atomic<long> stale = 0;
	/* enqueues that were answered with an existing job, by its unique key */
	std::atomic<long> met = 0;
	std::atomic<long> revived = 0; /* dead letters that were revived */
	std::atomic<long> prepared = 0;
	std::atomic<long> broken = 0; /* connections that broke */
	std::atomic<long> resolved_committed = 0;
	std::atomic<long> resolved_aborted = 0;
	std::atomic<long> restarts = 0;
	std::atomic<long> failovers = 0;
	std::atomic<long> audits = 0;
	/* jobs of groups that were handed out; claims that were refused since no lease was left */
	std::atomic<long> grouped = 0;
	std::atomic<long> refused = 0;
	std::atomic<long> rule_changes = 0; /* of the rules for groups */
	std::atomic<long> turn_checks = 0;

	void error(const std::string &state);
	void kill(const std::string &kind);
	/* Note the counters of this server memory as of now. */
	void rotated(Epoch epoch, int64_t truncations, int64_t moved_rows);
	/*
	 * Rows that were seen in one segment and later in another; the second number is of jobs that
	 * were due.
	 */
	std::atomic<long> seen_moved = 0;
	std::atomic<long> seen_moved_due = 0;
	/* moves that were held up in the middle, while actors claimed the moved jobs */
	std::atomic<long> kept_moves = 0;
	/* Return whether a segment was truncated and a row was moved. */
	bool rotation_was_seen();
	void print(struct World &world);
	long kills();
	/* Return the number of kills of one kind. */
	long kills(const std::string &kind);

private:
	struct Rotation
	{
		int64_t truncations = 0;
		int64_t moved_rows = 0;
	};

	std::mutex mutex;
	std::map<std::string, long> errors;
	std::map<std::string, long> kinds;
	std::map<Epoch, Rotation> lives;

	Rotation rotation() const;
};

/* Objects that one actor leaves for another. */
template <typename T> class Pool
{
public:
	void put(T thing)
	{
		std::lock_guard lock(mutex);
		things.push_back(std::move(thing));
	}

	/* Take the object that was left first. Returns false if there is none. */
	bool take(T *thing)
	{
		std::lock_guard lock(mutex);
		if (things.empty())
			return false;
		*thing = std::move(things.front());
		things.pop_front();
		return true;
	}

	size_t size()
	{
		std::lock_guard lock(mutex);
		return things.size();
	}

private:
	std::mutex mutex;
	std::deque<T> things;
};

struct World
{
	static constexpr size_t kSmallBacklog = 100;
	static constexpr size_t kCrowdBacklog = 300;

	Ledger ledger;
	Coordination coordination{ledger};
	Timetable timetable{ledger};
	Handled handled{ledger};
	Batched batched{ledger};
	Graphed graphed{ledger};
	Gate gate;
	Counters counters;
	Cluster cluster;
	const uint64_t seed;
	Pool<Held> abandoned; /* leases whose workers believe that they still have them */
	Pool<TxRef> prepared; /* transactions that wait for COMMIT or ROLLBACK PREPARED */
	/* locks and runs whose holders may believe that they still have them */
	Pool<GrantRef> forgotten;
	std::atomic<int64_t> once = 1; /* number of the run that is currently to be done once */
	/*
	 * Pulling back cursors repairs many faults, and both delayed jobs that do not fit and COMMIT
	 * PREPARED do so all the time. So there are times without delayed jobs, and times without
	 * prepared transactions.
	 */
	std::atomic<bool> delays = true;
	std::atomic<bool> prepares = true;
	/*
	 * Producers stop at this number of live jobs. Otherwise the ends of long queues would never be
	 * seen, nor segments with few live rows.
	 */
	std::atomic<size_t> backlog = kCrowdBacklog;
	/*
	 * The scheduler is being kept in the middle of a move: actors should claim the jobs that it is
	 * moving.
	 */
	std::atomic<bool> moving = false;
	/*
	 * Most jobs are for queues with many groups, and claims take many jobs, so that leases, windows
	 * and the memory for groups run short.
	 */
	std::atomic<bool> crowd = true;
	/* The queues with handlers exist: the SQL objects are of a version that has handlers. */
	std::atomic<bool> handlers = false;
	/* The queues for batches exist. */
	std::atomic<bool> batches = false;
	/* The queues for graphs exist. */
	std::atomic<bool> graphs = false;
	World(std::string dir, std::string settings, uint64_t seed)
		: cluster(std::move(dir), std::move(settings), seed), seed(seed)
	{}

	/* Return the name of the temporary queue; empty: there is none at the moment. */
	std::string current_temporary_queue()
	{
		std::lock_guard lock(mutex);
		return temporary_queue;
	}
	void set_temporary_queue(std::string queue)
	{
		std::lock_guard lock(mutex);
		temporary_queue = std::move(queue);
	}

private:
	std::mutex mutex;
	std::string temporary_queue;
};

/* Queues with many groups. */
inline const std::vector<std::string> kCrowdedQueues = {kLineQueue, kHeadsQueue, kPacedQueue,
														kRuledQueue};
/* The queues that all actors use. */
inline const std::vector<std::string> kQueues = {
	"plain",	   "short",		"quiet",	kGroupedQueue, kFifoQueue,	kFairQueue, kKeyedQueue,
	kLimitedQueue, kRatedQueue, kLineQueue, kHeadsQueue,   kPacedQueue, kRuledQueue};
inline const std::string kPurgedQueue = "purged";
/* A queue from which jobs are claimed so seldom that due jobs stay longer than their segment. */
inline const std::string kSlowQueue = "slow";
inline const std::string kOrderedQueue = "ordered";

/* Return the max_attempts with which the queue is created. */
inline const char *
max_attempts_in(const std::string &queue)
{
	return queue == "short" ? "3" : "20";
}

} // namespace torture
