#include "worker/call_timer.h"

#include "engine/handler_slot.h"
#include "pg/clock.h"
#include "pg/server_stop.h"
#include "worker/worker.h"

#include <csignal>

namespace pgq {

/* Number of cancels, a second apart, after which the process ends. */
static constexpr int kPatience = 10;

/* The clocks of the timer and of the deadline may differ by this time, in microseconds. */
static constexpr int64 kSlack = 5000;

static constinit TimeoutId timer = MAX_TIMEOUTS;
static constinit volatile sig_atomic_t watching = 0;
static constinit volatile sig_atomic_t reason = 0; /* Interrupted */
static constinit volatile sig_atomic_t cancels = 0;
static constinit volatile sig_atomic_t stopping = 0;
static constinit int64 deadline = 0;

/* ---- called by signals ---- */

/* Do what the server does when a client cancels its query. */
static void
cancel_query(Interrupted why)
{
	if (watching == 0)
		return;
	if (reason == static_cast<int>(Interrupted::kNo))
		reason = static_cast<int>(why);
	cancels = cancels + 1;
	InterruptPending = true;
	if (cancels > kPatience)
		ProcDiePending = true;
	else
		QueryCancelPending = true;
	SetLatch(MyLatch);
}

/* Called once a second during a call. */
static void
on_tick()
{
	if (watching == 0)
		return;
	if (stopping != 0)
		cancel_query(Interrupted::kStopping);
	else if (call_is_cancelled())
		cancel_query(Interrupted::kCancelled);
	else if (monotonic_now() + kSlack >= deadline)
		cancel_query(Interrupted::kTimeout);
}

/*
 * Handler of SIGTERM. If the server stops, cancel the call, so that its job can be given back
 * uncounted. Otherwise an administrator ends the process, and the attempt counts: the job may be
 * the reason.
 *
 * A transaction that is not watched, for example a commit that waits for a standby, ends as in any
 * session. The postmaster sends SIGTERM only once, so without this the stop of the server would
 * wait for that transaction without end.
 */
static void
on_terminate(SIGNAL_ARGS)
{
	int saved = errno;
	bool stops = server_is_stopping();
	stopping = stops ? 1 : stopping;
	if (stops && watching != 0)
		cancel_query(Interrupted::kStopping);
	else if (!stops || IsTransactionOrTransactionBlock())
		die(PGQ_SIGNAL);
	else
		SetLatch(MyLatch);
	errno = saved;
}

/* SIGUSR2: cancel_handler_call(). */
static void
on_cancel(SIGNAL_ARGS)
{
	int saved = errno;
	if (call_is_cancelled())
		cancel_query(Interrupted::kCancelled);
	errno = saved;
}

/* SIGINT: pg_cancel_backend(). Between calls there is no query to cancel. */
static void
on_interrupt(SIGNAL_ARGS)
{
	if (watching != 0)
		StatementCancelHandler(PGQ_SIGNAL);
}

/* ---- the watch ---- */

static void
stop_watching()
{
	watching = 0;
	disable_timeout(timer, false);
	end_handler_call();
	QueryCancelPending = false;
}

/*
 * The call is about to commit, and its deferred triggers have run. From now on a cancel must not
 * undo the call. But if the call was interrupted before, and has caught the error, the call must
 * not commit.
 */
static void
at_commit(XactEvent event, void *)
{
	if (event != XACT_EVENT_PRE_COMMIT || watching == 0)
		return;
	bool caught = reason != static_cast<int>(Interrupted::kNo) && !QueryCancelPending;
	stop_watching();
	if (caught)
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("the call of the handler was interrupted, but has caught the error")));
}

void
call_timer_init()
{
	timer = RegisterTimeout(USER_TIMEOUT, on_tick);
	RegisterXactCallback(at_commit, nullptr);
	pqsignal(SIGTERM, on_terminate);
	pqsignal(SIGINT, on_interrupt);
	pqsignal(SIGUSR2, on_cancel);
	at_crash_of_others(note_handler_quit);
}

void
begin_watching(int64 timeout)
{
	static constexpr int kEveryMs = 1000;
	/* Choose the first tick so that a later tick comes at the deadline. */
	int64 first = timeout % USECS_PER_SEC;
	first = first == 0 ? USECS_PER_SEC : first;
	deadline = monotonic_now() + timeout;
	reason = static_cast<int>(Interrupted::kNo);
	cancels = 0;
	watching = 1;
	enable_timeout_every(timer, wall_now() + first, kEveryMs);
}

Interrupted
end_watching()
{
	if (watching != 0)
		stop_watching();
	return static_cast<Interrupted>(reason);
}

bool
must_stop()
{
	return stopping != 0;
}

} // namespace pgq
