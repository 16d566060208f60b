/*
 * pgq_ext: a job queue that lives inside PostgreSQL.
 *
 * How a job flows: api -> jobs -> rows (insert) -> txn (effect) -> engine (hint) ->
 * jobs (claim) -> txn -> rows (delete). docs/architecture.md has the map.
 */
#include "api/claim_scan.h"
#include "api/restore.h"
#include "catalog/version.h"
#include "claim/prepared_claim.h"
#include "engine/layout.h"
#include "handlers/check.h"
#include "pg/pg.h"
#include "pg/stop_point.h"
#include "ring/rotation.h"
#include "ring/segment_guard.h"
#include "rows/deleted_member.h"
#include "sync/run.h"
#include "txn/effects.h"
#include "txn/session_end.h"
#include "worker/worker.h"

extern "C" {
PGDLLEXPORT extern const Pg_magic_struct *Pg_magic_func(void);
PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	/* Loaded on demand, or by pg_upgrade: every function says what is missing when it is called. */
	if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
		return;
	pgq::engine_init();
	pgq::version_init();
	pgq::segment_guard_init();
	pgq::stop_point_init();
	pgq::effects_init();
	pgq::member_notes_init();
	pgq::prepared_claims_init();
	pgq::session_end_init();
	pgq::restore_init();
	pgq::claim_scan_init();
	pgq::workers_init();
	pgq::handlers_init();
	pgq::rotation_init();
	pgq::runs_init();
	MarkGUCPrefixReserved("pgq_ext");
}
}
