#include "claim/verify.h"

#include "catalog/subscription.h"
#include "catalog/tables.h"
#include "rows/head.h"
#include "rows/look_up.h"
#include "txn/effects.h"

namespace pgq {

/*
 * Return whether the row of a job caused the error that was raised while the row was passed to the
 * caller (the row is too large or damaged). If not (the session was cancelled, or the server lacks
 * a resource such as memory), the job is only set aside for a moment.
 */
static bool
is_fault_of_row(int error)
{
	switch (ERRCODE_TO_CATEGORY(error))
	{
		case MAKE_SQLSTATE('4', '0', '0', '0', '0'): /* deadlock, serialization */
		case MAKE_SQLSTATE('5', '3', '0', '0', '0'): /* insufficient resources */
		case MAKE_SQLSTATE('5', '5', '0', '0', '0'): /* lock not available */
		case MAKE_SQLSTATE('5', '7', '0', '0', '0'): /* cancel, shutdown */
		case MAKE_SQLSTATE('5', '8', '0', '0', '0'): /* I/O */
			return false;
		default:
			return true;
	}
}

/*
 * Pass the row to the caller. A row that no claim can return must not stop the queue, so an error
 * that the row causes costs the job an attempt (protocol: failed-look-is-put-aside).
 */
static void
give(Claim *claim, const Round &round, const JobRow &row, const Ready &ready)
{
	PG_TRY();
	{
		claim->give(claim->result, round.ref, round.options, row, ready);
	}
	PG_CATCH();
	{
		if (is_fault_of_row(geterrcode()))
			note_unreturnable();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* In a queue with fifo, return whether it is unknown if the job is the head of its group. */
static bool
may_be_behind(const Round &round, const Candidate &popped)
{
	return round.options.fifo && popped.hint.group != 0 && popped.from < popped.hint.key.job_id;
}

/*
 * Return the segments, as bits, that verify() reads for the popped hints from `from` on: those that
 * contain the rows, or all segments if one of the jobs may be behind an earlier job of its group.
 */
static uint32
needed(const Round &round, int from)
{
	uint32 numbers = 0;
	for (int i = from; i < round.n; i++)
		numbers |= may_be_behind(round, round.popped[i]) ? kEverySegment
														 : segment_bit(round.popped[i].hint.place);
	return numbers;
}

static int64
lease_time_of(const ClaimOptions &wanted, const QueueOptions &options)
{
	int64 lease_time = wanted.lease_time > 0 ? wanted.lease_time : options.lease_time;
	return options.max_runtime > 0 ? Min(lease_time, options.max_runtime) : lease_time;
}

/*
 * In a queue with fifo, return whether a live job of the same group comes before the popped job.
 * The caller has the lease of the popped job and the only slot of its group. So no other job of the
 * group is in work, and the rows of jobs that have ended are gone.
 */
static bool
is_behind(SegmentSet &segments, const Round &round, const Candidate &popped)
{
	Hint head;
	return may_be_behind(round, popped) && popped.fits(round.ref) &&
		   find_head(segments, round.ref.queue_id, popped.hint.group, popped.from,
					 popped.hint.key.job_id, &head);
}

/*
 * Add the job to those that the claim has taken, and return true. If the jobs together would be
 * larger than ClaimOptions::most_bytes, return false: the claim is full. The first job is taken
 * even if it is larger, so that a large job runs alone.
 */
static bool
has_room_for(Round *round, const Claim &claim, const JobRow &row)
{
	if (claim.options->most_bytes == 0)
		return true;
	for (JobColumn column : {kJobPayload, kJobHeaders})
		if (!row.is_null(column))
			round->bytes += toast_raw_datum_size(row.value(column));
	round->full = claim.n > 0 && round->bytes > claim.options->most_bytes;
	return !round->full;
}

/*
 * Verify one row. Returns false if its job cannot be handed out. note_verifying() tells the abort
 * callback to which job a later error belongs.
 */
static bool
verify_one(SegmentSet &segments, Round *round, Candidate *popped, Claim *claim, Ready ready)
{
	note_verifying(popped->lease);
	popped->visibility =
		verify_job(segments, popped->hint.place, popped->hint.key.job_id, &popped->row);
	popped->ghost = popped->visibility == Visibility::kDead;
	/*
	 * No claim hands out an expired job, so its hint can be dropped. The scheduler ends the job. No
	 * claim hands out a blocked job either, even if SQL has changed its run_at. A blocked job gets
	 * a new hint when it becomes ready.
	 */
	if (popped->visibility == Visibility::kLive && (popped->row.blocked() || popped->row.expired()))
		popped->visibility = Visibility::kDead;
	popped->behind = popped->left = false;
	popped->behind = is_behind(segments, *round, *popped);
	bool fits = popped->fits(round->ref);
	if (fits && !has_room_for(round, *claim, popped->row))
	{
		popped->left = true;
		fits = false;
	}
	if (fits)
	{
		ready.lease = popped->lease;
		ready.serial = popped->serial;
		ready.token = popped->token;
		ready.hand_out.attempt = popped->row.next_attempt();
		ready.hand_out.place = popped->row.place;
		ready.hand_out.group = popped->row.group();
		ready.hand_out.enqueued_at = DatumGetTimestampTz(popped->row.value(kJobEnqueuedAt));
		ready.expires_at = popped->row.expires_at();
		claim->ready[claim->n++] = ready;
		give(claim, *round, popped->row, ready);
	}
	note_verifying(nullptr);
	if (fits)
		note_member_in_hand(popped->row.batch());
	return fits;
}

/* Leave the popped job, whose row the claim does not read, to other claims. */
static void
leave_job(Candidate *popped)
{
	popped->visibility = Visibility::kBusy;
	popped->ghost = popped->behind = false;
	popped->left = true;
}

int
verify(Round *round, Claim *claim, MemoryContext scratch)
{
	static constexpr Size kManyBytes = 16 * 1024 * 1024;
	SegmentSet &segments = round->segments;
	Ready ready{};
	ready.ref = round->ref;
	ready.options_set = round->options_set;
	ready.hand_out.lease_time = lease_time_of(*claim->options, round->options);
	ready.hand_out.worker = claim->options->worker;
	ready.hand_out.session_bound = claim->options->session_bound;
	ready.hand_out.unbegun = claim->options->ends_them_itself;
	ready.monotonic = monotonic_now();
	ready.now = wall_now();
	Size bytes = 0;
	int unfit = 0;
	segments.open_in_order(needed(*round, 0));
	for (int i = 0; i < round->n; i++)
	{
		/* After some megabytes of rows, unlock the segments for a moment, as between rounds. */
		if (bytes > kManyBytes)
		{
			segments.close();
			CHECK_FOR_INTERRUPTS();
			segments.open_in_order(needed(*round, i));
			bytes = 0;
		}
		if (round->full)
			leave_job(&round->popped[i]);
		if (round->full || !verify_one(segments, round, &round->popped[i], claim, ready))
		{
			unfit++;
			continue;
		}
		/*
		 * From here on only columns passed by value are used, so the scratch memory can be reset.
		 */
		bytes += MemoryContextMemAllocated(scratch, false);
		MemoryContextReset(scratch);
	}
	/*
	 * Check again for a subscription: locking the segments has processed invalidation messages, and
	 * a waiting claim may have slept through a CREATE SUBSCRIPTION.
	 */
	refuse_if_subscribed();
	segments.close();
	return unfit;
}

} // namespace pgq
