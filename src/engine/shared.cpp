#include "engine/shared.h"

namespace pgq {

constinit Shared *shared = nullptr;

constinit int max_databases = 0;
constinit int max_queues = 0;
constinit int window_size = 0;
constinit int timer_size = 0;
constinit int max_leases = 0;
constinit int max_claim_queues = 0;
constinit int max_locks = 0;
constinit int max_rates = 0;
constinit int max_handler_workers = 0;
constinit int max_watched_batches = 0;

int
process_count()
{
	return MaxBackends + NUM_AUXILIARY_PROCS;
}

void
require_preloaded()
{
	if (shared == nullptr)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("pgq_ext must be loaded when the server starts"),
						errhint("Add pgq_ext to shared_preload_libraries, for example "
								"\"shared_preload_libraries = 'pgq_ext'\" in postgresql.conf, and "
								"restart the server.")));
}

} // namespace pgq
