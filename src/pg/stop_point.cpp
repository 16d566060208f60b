#include "pg/stop_point.h"

#include "pg/pg.h"

namespace pgq {

static char empty[] = "";
constinit char *stop_point_name = empty;

void
stop_point_init()
{
	DefineCustomStringVariable(
		"pgq_ext.stop_point", "Where this session stops for a test of a race.",
		"It stops while another session holds pg_advisory_lock(7366513, 0).", &stop_point_name, "",
		PGC_SUSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE, nullptr, nullptr, nullptr);
}

/*
 * Wait for the test's advisory lock in the current database; in a process without a database, for
 * the lock in the database "postgres".
 */
void
stop_here()
{
	LOCKTAG tag;
	int level = NewGUCNestLevel();
	(void) set_config_option("lock_timeout", "0", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true,
							 0, false);
	Oid database = OidIsValid(MyDatabaseId) ? MyDatabaseId : PostgresDbOid;
	SET_LOCKTAG_ADVISORY(tag, database, 0x706771, 0, 2);
	LockAcquire(&tag, ExclusiveLock, false, false);
	LockRelease(&tag, ExclusiveLock, false);
	AtEOXact_GUC(false, level);
}

} // namespace pgq
