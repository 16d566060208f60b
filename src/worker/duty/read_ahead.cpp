/*
 * Duties: refill the window and the timer of a queue before claims need the rows.
 */
#include "engine/lease.h"
#include "load/refill.h"
#include "worker/queue_pass.h"
#include "worker/worker.h"

namespace pgq {

/*
 * Run the refill. If the extension's tables cannot be locked now, the next try is due after
 * kParkTime.
 */
static int64
read_ahead(const QueueRef &ref, RefillResult (*refill)(const QueueRef &, bool))
{
	bool served = serving_transaction(AccessShareLock, [&] { refill(ref, false); });
	return served ? INT64_MAX : monotonic_now() + kParkTime;
}

bool
wants_window(const QueuePass &pass, bool)
{
	return pass.wants_window;
}

int64
fill_window(const QueueRef &ref, const QueuePass &)
{
	return read_ahead(ref, refill_window);
}

bool
wants_timer(const QueuePass &pass, bool)
{
	return pass.wants_timer;
}

int64
fill_timer(const QueueRef &ref, const QueuePass &)
{
	return read_ahead(ref, refill_timer);
}

} // namespace pgq
