/*
 * Children are jobs that wait for the end of other jobs, their parents. Memory knows whether a
 * database may have children, and which children the scheduler has to judge. The scheduler decides
 * by the tables, never by memory alone. See the README of dependencies/, "Jobs without children".
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/* ---- for everybody ---- */

/*
 * Return whether a job of the database may have children. If it returns false, all dependencies in
 * the table are dead rows, and a transaction that inserts a dependency calls expect_children()
 * before. A transaction that ends a job calls this function after it has deleted the row of the
 * job.
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
 * Note that SQL inserts rows, for example of dependencies, outcomes or blocked jobs, and that more such
 * rows may follow, as in a restore. db: NULL if the database has no slot; the database may get a slot
 * before all rows are inserted.
 */
void note_rows_came(Database *db);

/*
 * ---- for the callbacks at the end of a transaction. These functions cannot fail. They wake the
 * scheduler of the database ----
 */

/* Tell the scheduler of a child that was enqueued, or of a parent that has ended. */
void tell_child(Oid database, int64 child_id);
void tell_parent(Oid database, int64 parent_id);
/*
 * Tell the scheduler that all children of the database are to be judged; or all children with this id
 * or a greater one.
 */
void tell_all_children(Oid database);
void tell_children_from(Oid database, int64 child_id);

/* ---- for the scheduler ---- */

/*
 * Note that there may be children, and that all of them are to be judged. Called for a new slot and
 * by a new scheduler.
 */
void begin_watching_children(Database *db);
/* Note that the table of dependencies has no row. The caller has locked the table in ShareLock. */
void expect_no_children(Database *db);

/* Return whether the scheduler was told of a child or a parent since the last take_told_jobs(). */
inline bool
has_told_children(const Database *db)
{
	return value_of(db->children.told) != 0;
}

/*
 * Return whether SQL has inserted rows in the last minutes (note_rows_came()), so that rows which
 * are missing may still come. The caller has taken the snapshot that misses the rows before this
 * call.
 */
bool rows_may_come(const Database *db);

struct ToldTaken
{
	bool all;
	int64 all_from; /* all blocked children from this one on; INT64_MAX: none */
	int children;
	int parents;
	int64 child[kToldJobs];
	int64 parent[kToldJobs];
};

/*
 * Move the ids of which the scheduler was told into *taken, and empty the sets of the slot. The
 * caller takes its snapshot after this call.
 */
void take_told_jobs(Database *db, ToldTaken *taken);

} // namespace pgq
