/*
 * Horizon of one queue: an upper bound of the run_at of jobs that were due when they were enqueued. If the run_at of such a row is
 * beyond the due line, the row stands among rows that are not due in the index of all rows by priority and run_at. So a scan of
 * this index goes on up to the horizon.
 *
 * The bound is at least the run_at of each such row that was met, that is, filed or read. If memory may lack rows that were not
 * met, the bound is at least the bound of their run_at that was passed to doubt().
 *
 * A survey lowers the bound: a refill of the window from -infinity, and the refills that continue it up to +infinity. At the end of
 * the survey, the bound is the latest run_at of such rows that were met since the survey began.
 *
 * Pure and unlocked: part of Schedule.
 */
#pragma once

#include "core/key.h"

#include <algorithm>

namespace pgq {

class Horizon
{
public:
	void reset()
	{
		bound_ = INT64_MIN;
		restart_survey();
	}

	int64_t bound() const { return bound_; }

	/* Note that there is a job with this run_at that was due when it was enqueued. */
	void raise(int64_t run_at)
	{
		bound_ = std::max(bound_, run_at);
		met_ = std::max(met_, run_at);
	}

	/* Note that memory may lack jobs that were never filed, with a run_at up to `bound`. */
	void doubt(int64_t bound)
	{
		bound_ = std::max(bound_, bound);
		restart_survey();
	}

	/* Note that a refill of the window begins at this key. */
	void begin_refill(const Key &start, int64_t due_line)
	{
		if (start == Key::lowest() && bound_ > due_line)
			begin_survey();
		surveying_ = !(surveyed_ < start);
	}

	/* Note that the refill has ended. end: the first key that it has not read. */
	void end_refill(const Key &end)
	{
		if (surveying_ && surveyed_ < end)
			surveyed_ = end;
		if (surveyed_ == Key::highest())
			lower();
	}

	/* Lower the bound. Call this only if all jobs that were due when enqueued were met since the survey began. */
	void lower() { bound_ = met_; }

	int64_t met() const { return met_; }
	const Key &surveyed() const { return surveyed_; }
	bool surveying() const { return surveying_; }

private:
	void begin_survey()
	{
		surveyed_ = Key::lowest();
		met_ = INT64_MIN;
	}
	void restart_survey()
	{
		begin_survey();
		surveying_ = false;
	}

	int64_t bound_;
	int64_t met_;	 /* latest run_at of the rows that were met since the survey began */
	Key surveyed_;	 /* the survey has read all rows below this key */
	bool surveying_; /* the refill that is active belongs to the survey */
};

} // namespace pgq
