/*
 * Who waits for the end of a job (pgq_result), one a process, and how it ended: whoever applies a commit
 * tells them. What the tables do not keep nobody could learn afterwards.
 */
#pragma once

#include "engine/wakeup.h"

namespace pgq {

enum class JobEnd : uint8
{
	kUnknown,
	kAcked,
	kCancelled,
	kExpired,
	kDead,
};

/* This process waits, until end_result_wait(); cannot fail from there on. */
void begin_result_wait(const Database *db, int64 job_id);
JobEnd end_result_wait();
bool waits_for_result();

/* Under the queue's lock, whose order is before this one's: the job ends. */
void tell_waiting(const Database *db, int64 job_id, JobEnd end, Wakeups *wakeups);

/* Does anybody wait? A look without a lock: who begins after it looks at the tables afterwards. */
inline bool
anybody_waits_for_result()
{
	return value_of(shared->result_waits) > 0;
}

Size result_waits_size();
void place_result_waits(void *memory);

} // namespace pgq
