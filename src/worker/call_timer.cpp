#include "worker/call_timer.h"

#include "engine/handler_slot.h"
#include "pg/clock.h"
#include "worker/worker.h"

#include <csignal>
#include <fcntl.h>
#include <unistd.h>

namespace pgq {

/* Number of cancels, a second apart, after which the process ends. */
static constexpr int kPatience = 10;

/* The two clocks, of the timer and of the deadline, differ a little. */
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

/* Each second of a call. */
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
 * Return whether the postmaster stops the server. It notes that in its lock file before it sends
 * signals. Uses only functions that are safe in a signal handler.
 */
static bool
server_stops()
{
	char text[1024];
	int file = open("postmaster.pid", O_RDONLY);
	if (file < 0)
		return true;
	ssize_t length = read(file, text, sizeof(text) - 1);
	(void) close(file);
	if (length < 0)
		return true;
	text[length] = '\0';
	const char *line = text;
	for (int i = 1; i < LOCK_FILE_LINE_PM_STATUS && line != nullptr; i++)
	{
		line = strchr(line, '\n');
		line = line != nullptr ? line + 1 : nullptr;
	}
	return line != nullptr && strncmp(line, PM_STATUS_STOPPING, strlen(PM_STATUS_STOPPING)) == 0;
}

/*
 * SIGTERM. If the server stops, cancel the call, so that its job can be given back uncounted.
 * Otherwise an administrator ends the process, and the attempt counts: the job may be the reason.
 *
 * A transaction that is not watched, for example a commit that waits for a standby, ends as in any
 * session. The postmaster sends no second signal, so the stop would wait for it for ever.
 */
static void
on_terminate(SIGNAL_ARGS)
{
	int saved = errno;
	bool stops = server_stops();
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

static void
on_quit(SIGNAL_ARGS)
{
	note_handler_quit();
	SignalHandlerForCrashExit(PGQ_SIGNAL);
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
 * The call is about to commit: its deferred triggers have run. What comes now, a cancel must not
 * undo. But if the call was interrupted before, and has caught the error, it must not commit.
 */
static void
at_commit(XactEvent event, void *)
{
	if (event != XACT_EVENT_PRE_COMMIT || watching == 0)
		return;
	bool caught = reason != static_cast<int>(Interrupted::kNo) && !QueryCancelPending;
	stop_watching();
	if (caught)
		ereport(ERROR, (errcode(ERRCODE_QUERY_CANCELED),
						errmsg("the call was interrupted, and has not ended with the error")));
}

void
call_timer_init()
{
	timer = RegisterTimeout(USER_TIMEOUT, on_tick);
	RegisterXactCallback(at_commit, nullptr);
	pqsignal(SIGTERM, on_terminate);
	pqsignal(SIGINT, on_interrupt);
	pqsignal(SIGUSR2, on_cancel);
	pqsignal(SIGQUIT, on_quit);
}

void
begin_watching(int64 timeout)
{
	static constexpr int kEveryMs = 1000;
	/* The first tick comes so that a later one comes at the deadline. */
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
