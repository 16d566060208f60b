#include "rows/attempt.h"

namespace pgq {

static const char *
name_of(Outcome outcome)
{
	switch (outcome)
	{
		case Outcome::kAcked:
			return "acked";
		case Outcome::kFailed:
			return "failed";
		case Outcome::kReleased:
			return "released";
		case Outcome::kLost:
			return "lost";
		case Outcome::kCancelled:
			break;
	}
	return "cancelled";
}

void
add_attempt(Records &records, const AttemptRecord &attempt)
{
	records.add(kAttemptRing, kAttemptSegment, [&](NewRecord<AttemptColumn> &record) {
		record.set(kAttemptJobId, Int64GetDatum(attempt.job_id));
		record.set(kAttemptLease, Int64GetDatum(attempt.token));
		record.set(kAttemptClaimedAt, TimestampTzGetDatum(attempt.claimed_at));
		record.set(kAttemptEndedAt, TimestampTzGetDatum(wall_now()));
		record.set(kAttemptQueueId, Int32GetDatum(attempt.queue_id));
		record.set(kAttemptNumber, Int32GetDatum(attempt.attempt));
		record.set_text(kAttemptOutcome, name_of(attempt.outcome));
		record.set_text(kAttemptWorker, attempt.worker);
		if (attempt.reason != nullptr)
			record.set_text(kAttemptReason, attempt.reason);
		if (attempt.has_error)
			record.set(kAttemptError, attempt.error);
	});
}

} // namespace pgq
