/* What all actors share. */
#pragma once

#include "cluster.h"
#include "coordination.h"
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
	/* By an actor, between turns. False: the run is over. */
	bool pass();
	void join();
	void leave();
	/* Waits until all actors wait; false if they do not come. */
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
	std::atomic<long> met = 0;	   /* by their unique keys */
	std::atomic<long> revived = 0; /* dead letters */
	std::atomic<long> prepared = 0;
	std::atomic<long> broken = 0; /* connections */
	std::atomic<long> resolved_committed = 0;
	std::atomic<long> resolved_aborted = 0;
	std::atomic<long> restarts = 0;
	std::atomic<long> failovers = 0;
	std::atomic<long> audits = 0;

	void error(const std::string &state);
	void kill(const std::string &kind);
	/* What the server has counted in this life of its memory so far. */
	void rotated(Epoch epoch, int64_t truncations, int64_t moved_rows);
	/* These were seen in one segment and later in another; of them were due before. */
	std::atomic<long> seen_moved = 0;
	std::atomic<long> seen_moved_due = 0;
	std::atomic<long> kept_moves = 0; /* in the middle, while others asked for the rows */
	/* Was a segment truncated, and a row moved? */
	bool rotation_was_seen();
	void print(struct World &world);
	long kills();

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

/* Things that one actor leaves for another. */
template <typename T> class Pool
{
public:
	void put(T thing)
	{
		std::lock_guard lock(mutex);
		things.push_back(std::move(thing));
	}

	/* The oldest that was left. */
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
	static constexpr size_t kSmallBacklog = 60;

	Ledger ledger;
	Coordination coordination{ledger};
	Timetable timetable{ledger};
	Gate gate;
	Counters counters;
	Cluster cluster;
	const uint64_t seed;
	Pool<Held> abandoned;		   /* leases of workers that believe to hold them still */
	Pool<TxRef> prepared;		   /* transactions that wait for their end */
	Pool<GrantRef> forgotten;	   /* locks and runs that somebody may believe to hold still */
	std::atomic<int64_t> once = 1; /* what is to be done once for ever, at the moment */
	/*
	 * Much repairs itself when cursors are pulled back, as timers that do not fit and
	 * COMMIT PREPARED do all the time. So there are times without them.
	 */
	std::atomic<bool> delays = true;
	std::atomic<bool> prepares = true;
	/*
	 * More jobs than that are not kept waiting: the ends of long queues are never seen otherwise,
	 * nor segments that have few rows left.
	 */
	std::atomic<size_t> backlog = kSmallBacklog;
	/* The scheduler is kept in the middle of a move: the time to ask for the jobs that it has in hand. */
	std::atomic<bool> moving = false;
	World(std::string dir, std::string settings, uint64_t seed)
		: cluster(std::move(dir), std::move(settings), seed), seed(seed)
	{}

	/* A queue that is there now and then; empty: none. */
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

/* The queues that everybody uses. */
inline const std::vector<std::string> kQueues = {"plain",		"short",	   "quiet",
												 kGroupedQueue, kFifoQueue,	   kFairQueue,
												 kKeyedQueue,	kLimitedQueue, kRatedQueue};
inline const std::string kPurgedQueue = "purged";
/* Claimed from so seldom that jobs which are due outlive their segment. */
inline const std::string kSlowQueue = "slow";
inline const std::string kOrderedQueue = "ordered";

/* As the queues are told. */
inline const char *
max_attempts_in(const std::string &queue)
{
	return queue == "short" ? "3" : "20";
}

} // namespace torture
