/*
 * What memory knows about children, that is, jobs that wait for other jobs: whether there may be any,
 * and which of them the scheduler has to judge. Memory proves nothing: the scheduler looks at the
 * tables. See the README of dependencies/, "Jobs without children" and "Telling".
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/* ---- for everybody ---- */

/*
 * Return whether a job of the database may have children. If it returns false, there is no
 * dependency that is not dead, and none is inserted before expect_children() is called. A transaction
 * that ends a job asks this after it has deleted the job's row.
 */
inline bool
may_have_children(const Database *db)
{
	return value_of(db->children.childless) == 0;
}

/*
 * Note that a dependency is about to be inserted. The caller has locked pgq_ext.job_dependency in
 * RowExclusiveLock, and keeps the lock to the end of its transaction.
 */
void expect_children(Database *db);

/*
 * Note that SQL inserts rows, for example of dependencies, outcomes or blocked jobs: others may follow. db: NULL if
 * the database has no slot; it may get one while the rows come.
 */
void note_rows_came(Database *db);

/*
 * ---- for the callbacks at the end of a transaction. These functions cannot fail. They wake the
 * scheduler of the database ----
 */

/* Tell of a child that was enqueued, or of a parent that has ended. */
void tell_child(Oid database, int64 child_id);
void tell_parent(Oid database, int64 parent_id);
/* Tell of all children of the database. */
void tell_all_children(Oid database);

/* ---- for the scheduler ---- */

/* For a new slot, and for a new scheduler: there may be children, and all are to be judged. */
void begin_watching_children(Database *db);
/* Note that the table of dependencies has no row. The caller has locked it in ShareLock. */
void expect_no_children(Database *db);

/* Return whether a child or parent was told of since the last take_told_jobs(). */
inline bool
has_told_children(const Database *db)
{
	return value_of(db->children.told) != 0;
}

/*
 * Return whether rows that are missing may still come: SQL has inserted rows lately. The caller has
 * taken the snapshot that misses the rows before this call.
 */
bool rows_may_come(const Database *db);

struct ToldTaken
{
	bool all;
	int children;
	int parents;
	int64 child[kToldJobs];
	int64 parent[kToldJobs];
};

/*
 * Take everything that was told: the sets are empty afterwards. The caller takes its snapshot after
 * this call.
 */
void take_told_jobs(Database *db, ToldTaken *taken);

} // namespace pgq
