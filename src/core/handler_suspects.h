/*
 * Which calls of handlers may have crashed the server.
 *
 * A call is a *suspect* if its worker was the process that crashed. A call is under a *weak
 * suspicion* if it was in progress and nobody knows which process was the cause: a parallel worker
 * of the call may have crashed, or all processes ended at once. The second weak suspicion makes a
 * call a suspect, if the call had begun soon after a start of the server: a job that makes the
 * server end is called again soon after each start.
 *
 * Needs no server header and takes no lock. Times are monotonic, in microseconds.
 */
#pragma once

#include <algorithm>
#include <cstdint>

namespace pgq {

/* Identifies a call: the queue, and the job if the call has only one job. */
struct HandlerCall
{
	uint32_t database; /* OID */
	int32_t queue_id;
	int64_t job_id; /* the job, if the call has only one; 0: the call has several jobs */

	bool operator==(const HandlerCall &) const = default;
};

/* A suspect of the last crash of the server, for the scheduler of its database. */
struct CrashSuspect
{
	HandlerCall call;
	int32_t crashes; /* crashes of this call in a row; 0: the entry is free */
};

inline constexpr int kCrashSuspects = 16;

class HandlerSuspects
{
public:
	/* A call that began within this time after a start of the server has begun soon after it. */
	static constexpr int64_t kSoon = 5 * 60 * int64_t{1000 * 1000};
	static constexpr int64_t kForgottenAfter = 60 * 60 * int64_t{1000 * 1000};

	/*
	 * Called when the server has ended, before the new suspects are noted: the earlier suspects
	 * were reported, or belong to an earlier end.
	 */
	void begin_end()
	{
		for (Entry &entry : entries_)
			entry.is_fresh = false;
	}

	/* Note that the worker of the call has crashed. */
	void suspect(const HandlerCall &call, int64_t now)
	{
		Entry *entry = entry_of(call, now);
		entry->crashes++;
		entry->is_fresh = true;
	}

	/*
	 * Note that the call was in progress when the server ended. soon: the call had begun soon after
	 * the start of the server.
	 */
	void suspect_weakly(const HandlerCall &call, bool soon, int64_t now)
	{
		bool known = find(call, now) != nullptr;
		if (known && soon)
			suspect(call, now);
		else
			(void) entry_of(call, now);
	}

	/* Call visit(call, crashes) for each suspect of the last end of the server. */
	template <typename Visit> void for_each_fresh(Visit visit) const
	{
		for (const Entry &entry : entries_)
			if (entry.is_fresh)
				visit(entry.call, entry.crashes);
	}

	/* Move all times by this many microseconds, because the origin of the clock has moved. */
	void move_times(int64_t by)
	{
		for (Entry &entry : entries_)
			entry.last += by;
	}

private:
	struct Entry
	{
		HandlerCall call;
		int32_t crashes; /* number of crashes; 0: the call is only under a weak suspicion */
		bool is_used;
		bool is_fresh; /* a suspect of the last end of the server */
		int64_t last;  /* time of the last end of the server after which the call was noted here */
	};

	Entry *find(const HandlerCall &call, int64_t now)
	{
		for (Entry &entry : entries_)
			if (entry.is_used && now - entry.last < kForgottenAfter && entry.call == call)
				return &entry;
		return nullptr;
	}
	/*
	 * Return the entry of the call. If the call has none, return a free entry or else the oldest
	 * one, emptied.
	 */
	Entry *entry_of(const HandlerCall &call, int64_t now)
	{
		Entry *entry = find(call, now);
		if (entry == nullptr)
		{
			entry = std::min_element(
				entries_, entries_ + kCrashSuspects, [](const Entry &a, const Entry &b) {
					return a.is_used != b.is_used ? b.is_used : a.last < b.last;
				});
			*entry = {};
			entry->call = call;
			entry->is_used = true;
		}
		entry->last = now;
		return entry;
	}

	Entry entries_[kCrashSuspects];
};

} // namespace pgq
