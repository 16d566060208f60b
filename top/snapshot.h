/* The data of one look. Data that could not be read is missing, and a note says why. */
#pragma once

#include "format.h"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace top {

/* Columns of the view queue_stats, in its order. */
constexpr std::array kCounters = {
	"enqueued",	 "deduplicated", "claims",	  "empty_claims", "handed_out",	   "acked",
	"failed",	 "released",	 "cancelled", "lost",		  "dead_lettered", "expired",
	"uncounted", "stale_calls",	 "rejected",  "ghosts",		  "repaired",	   "reconciled",
};
constexpr std::array kLatencies = {
	"wait_p50", "wait_p95", "run_p50", "run_p95", "total_p50", "total_p95",
};

template <typename Names>
constexpr size_t
index_of(const Names &names, std::string_view name)
{
	for (size_t i = 0; i < names.size(); i++)
		if (name == names[i])
			return i;
	return names.size();
}

struct Queue
{
	std::string name;
	std::optional<bool> paused;
	/*
	 * true: rights on the queue were granted to roles, and the role of pgq-top does not have the
	 * right admin
	 */
	bool is_closed = false;
	Count ready, scheduled, blocked, leased, dead, waiting_claims, depth;
	Seconds oldest_ready_age;
	Seconds last_claim_age;
	std::optional<std::string> stats_since;
	std::array<Count, kCounters.size()> counters;
	std::array<Seconds, kLatencies.size()> latencies;

	Count counter(std::string_view name) const { return counters[index_of(kCounters, name)]; }
	Seconds latency(std::string_view name) const { return latencies[index_of(kLatencies, name)]; }

	/*
	 * Return the number of live jobs; unknown if the number of ready, scheduled or leased jobs is
	 * unknown.
	 */
	Count jobs() const
	{
		return ready && scheduled && leased
				   ? Count(*ready + *scheduled + blocked.value_or(0) + *leased)
				   : Count();
	}
};

struct Lease
{
	int64_t job_id;
	std::string queue;
	Count attempt, pid;
	std::optional<std::string> worker;
	Seconds since;
	Seconds left;
	std::optional<bool> in_transaction;
};

struct DeadLetter
{
	int64_t job_id;
	std::optional<std::string> queue;
	Seconds died;
	Count attempts;
	std::optional<std::string> reason, error;
};

struct Handler
{
	std::string queue;
	std::optional<std::string> state;
	std::optional<std::string> function, role;
	Count workers, running;
	Count calls, failures;
	/* why the handler is suspended, and the error of the last failed call */
	std::optional<std::string> reason, error;
	/* since when the handler is suspended or paused, and the time until its next call may begin */
	Seconds since, rest;
};

struct Batch
{
	int64_t id;
	std::optional<std::string> state, maker;
	/* how long ago the batch was created, closed, finished, and how long ago it has failed */
	Seconds created, closed, finished, failed;
	/* why a callback could not be enqueued, and the time until the next try */
	std::optional<std::string> error;
	Seconds next_try;
};

struct Check
{
	std::string name, status;
	std::optional<std::string> detail, hint;
	Seconds checked;
};

/* A function of the extension, and whether the role may execute it. */
struct Function
{
	/* qualified and quoted name */
	std::string called;
	bool may_execute = false;
};

struct Server
{
	std::string taken_at;
	std::string clock;
	std::string version;
	std::string database;
	std::string role;
	bool is_standby = false;
	/* version; empty: the extension is not installed in this database */
	std::string extension;
	/* the role of pgq-top has USAGE on schema pgq_ext */
	bool may_use_schema = false;
};

struct Snapshot
{
	Server server;
	std::map<std::string, Function> functions;
	std::map<std::string, Queue> queues;
	/* when the counters were read (clock.h) */
	double counted_at = 0;
	/* at least one of pgq_ext.queue, queue_status and queue_stats could be read */
	bool knows_queues = false;
	/* each list: not set if the look did not ask for the list, or if the role may not read it */
	std::optional<std::vector<Lease>> leases;
	std::optional<std::vector<DeadLetter>> dead_letters;
	std::optional<std::vector<Check>> checks;
	std::optional<std::vector<Handler>> handlers;
	std::optional<std::vector<Batch>> batches;
	/* sentences about data that is not shown, with the reasons */
	std::vector<std::string> notes;
	/* something that the look should read could not be read */
	bool is_incomplete = false;
	/* there are more leases, dead letters, or batches, than the look has read */
	bool more_leases = false;
	bool more_dead_letters = false;
	bool more_batches = false;
};

} // namespace top
