/* What one look at the server has seen. What it could not see is not there, and a note says why. */
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
	/* There are rights on this queue, and the role has not that of an administrator. */
	bool is_closed = false;
	Count ready, scheduled, leased, dead, waiting_claims, depth;
	Seconds oldest_ready_age;
	Seconds last_claim_age;
	std::optional<std::string> stats_since;
	std::array<Count, kCounters.size()> counters;
	std::array<Seconds, kLatencies.size()> latencies;

	Count counter(std::string_view name) const { return counters[index_of(kCounters, name)]; }
	Seconds latency(std::string_view name) const { return latencies[index_of(kLatencies, name)]; }

	/* Jobs that live: unknown as long as one of its parts is. */
	Count jobs() const
	{
		return ready && scheduled && leased ? Count(*ready + *scheduled + *leased) : Count();
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

struct Check
{
	std::string name, status;
	std::optional<std::string> detail, hint;
	Seconds checked;
};

/* A function of the extension, and whether the role may call it. */
struct Function
{
	/* With its schema, quoted. */
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
	/* Empty: the extension is not in this database. */
	std::string extension;
	/* Whether the role has USAGE on schema pgq_ext. */
	bool may_use_schema = false;
};

struct Snapshot
{
	Server server;
	std::map<std::string, Function> functions;
	std::map<std::string, Queue> queues;
	/* When the counters of the queues were read (clock.h). */
	double counted_at = 0;
	/* Whether any of the views that tell of queues could be read. */
	bool knows_queues = false;
	/* Not there if it was not asked for, or could not be read. */
	std::optional<std::vector<Lease>> leases;
	std::optional<std::vector<DeadLetter>> dead_letters;
	std::optional<std::vector<Check>> checks;
	/* What is not shown, and why, in words. */
	std::vector<std::string> notes;
	/* A view that should be there could not be read. */
	bool is_incomplete = false;
	/* There are more rows than were read. */
	bool more_leases = false;
	bool more_dead_letters = false;
};

} // namespace top
