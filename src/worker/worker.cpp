#include "worker/worker.h"

namespace pgq {

constinit int notify_interval = 100;

void
workers_init()
{
	DefineCustomIntVariable(
		"pgq_ext.notify_interval", "Least time between two notifications of one database.",
		"Notifications of the jobs that became ready meanwhile are sent together.",
		&notify_interval, 100, 0, 60 * 1000, PGC_SIGHUP, GUC_UNIT_MS, nullptr, nullptr, nullptr);

	BackgroundWorker worker{};
	strlcpy(worker.bgw_name, kLauncherType, sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, kLauncherType, sizeof(worker.bgw_type));
	strlcpy(worker.bgw_library_name, "pgq_ext", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "pgq_launcher_main", sizeof(worker.bgw_function_name));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	/* Nothing on a standby until promotion. */
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 1;
	RegisterBackgroundWorker(&worker);
}

void
start_worker()
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
}

void
nap(int64 milliseconds)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, milliseconds,
					 PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

} // namespace pgq
