/*
 * The rules that say which callbacks of a batch are due. See the README of batches/. The model
 * test/model/batch_events.pml has the same rules.
 */
#pragma once

#include <cstdint>

namespace pgq {

/* An event of a batch, for which the batch may have a callback. */
enum BatchEvent : uint8_t
{
	kSuccess,
	kFailure,
	kFinish,
};
inline constexpr int kBatchEvents = 3;
/* The arguments of pgq_create_batch, in the order of the events. */
inline constexpr const char *callback_names[] = {"on_success", "on_failure", "on_finish"};
/* In the order in which callbacks are enqueued. */
inline constexpr BatchEvent batch_events[] = {kFailure, kSuccess, kFinish};

/* What the row of a batch says about its events. */
struct BatchMarks
{
	bool closed;
	bool cancelled;
	bool done
		[kBatchEvents]; /* the event has happened; its callback, if there is one, was enqueued */
};

/* The members of a batch, as one snapshot shows them. */
struct MemberSight
{
	bool live; /* a member is in the table job */
	bool dead; /* a member is a dead letter */
	bool died; /* a note says that a member has died */
	bool lost; /* a note says that a member has ended without an ack, and not by a death */
};

constexpr bool
is_due(const BatchMarks &marks, const MemberSight &seen, BatchEvent event)
{
	if (marks.done[event])
		return false;
	if (event == kFailure)
		return seen.died || seen.dead;
	bool ended = marks.closed && !seen.live;
	return ended && (event == kFinish || !(seen.dead || seen.lost || marks.cancelled));
}

/*
 * Return whether an event can still come. marks: with the events that happen now. A batch that is not
 * pending is not looked at again. A cancelled batch is pending while it has members, which the scheduler
 * ends.
 */
constexpr bool
is_pending(const BatchMarks &marks, const MemberSight &seen)
{
	for (BatchEvent event : batch_events)
		if (is_due(marks, seen, event))
			return true;
	if (!marks.done[kFinish] || (marks.cancelled && seen.live))
		return true;
	return !marks.done[kSuccess] && !marks.cancelled && !seen.lost && (seen.live || seen.dead);
}

} // namespace pgq
