#include "catalog/token_mark.h"

#include "catalog/owner_sql.h"
#include "engine/hold.h"
#include "engine/token.h"
#include "pg/scope.h"

namespace pgq {

int64
read_token_mark(Oid sequence)
{
	Relation rel = relation_open(sequence, AccessShareLock);
	if (rel->rd_rel->relkind != RELKIND_SEQUENCE)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("\"pgq_ext.%s\" is not a sequence", RelationGetRelationName(rel))));
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, nullptr);
	HeapTuple tuple = systable_getnext(scan);
	int64 mark = reinterpret_cast<Form_pg_sequence_data>(GETSTRUCT(tuple))->last_value;
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	relation_close(rel, AccessShareLock);
	return mark;
}

/*
 * Return the greatest token of the time that is `lead` microseconds after the clock or after the
 * last drawn token, whichever is later. After a restart, the last token is ahead of the clock for a
 * while.
 */
static int64
token_ahead_by(int64 lead)
{
	return greatest_of(Max(prefix_of_clock(), last_prefix_drawn()) + lead / 1000);
}

bool
token_mark_is_ahead(const Database *db, int64 lead)
{
	return static_cast<int64>(value_of(db->marked_token)) >= token_ahead_by(lead);
}

/*
 * Return whether the synchronous standby has the WAL up to `lsn`. Returns true if a commit of that
 * level waits for no standby.
 */
static bool
is_replicated(XLogRecPtr lsn, int commit_level)
{
	bool wanted = commit_level > SYNCHRONOUS_COMMIT_LOCAL_FLUSH && max_wal_senders > 0 &&
				  SyncRepStandbyNames != nullptr && SyncRepStandbyNames[0] != '\0';
	int mode =
		commit_level == SYNCHRONOUS_COMMIT_REMOTE_WRITE ? SYNC_REP_WAIT_WRITE : SYNC_REP_WAIT_FLUSH;
	return !wanted ||
		   with_lwlock(SyncRepLock, LW_SHARED, [&] { return WalSndCtl->lsn[mode] >= lsn; });
}

/*
 * Wait for the standby as a commit of this session would. If such a wait is canceled, the server
 * only raises a warning; raise an error instead.
 */
static void
wait_for_standby(XLogRecPtr lsn)
{
	with_interrupts_held([&] { SyncRepWaitForLSN(lsn, false); });
	if (!is_replicated(lsn, synchronous_commit))
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("canceling statement while waiting for synchronous replication"),
				 errdetail("No confirmation of the new value of sequence \"pgq_ext.token_mark\" "
						   "has arrived. This call has taken no job, lock or permit."),
				 errhint("Check in pg_stat_replication that the standbys of "
						 "synchronous_standby_names are connected. Then repeat the statement.")));
}

namespace {
/*
 * The last mark that this process has written to the sequence. Claims may not know this mark yet
 * (publish()): perhaps the standby does not have it, and the scheduler does not wait for the
 * standby.
 */
struct Unpublished
{
	Oid sequence;
	XLogRecPtr lsn;
	int64 mark;
};

} // namespace

static constinit Unpublished unpublished = {};

/*
 * Write the mark, even if another process has already written this mark. Each process writes its
 * own WAL record and waits for it, since the server allows only one waiter for a WAL position. The
 * mark always grows, so leases that were saved with the old mark become void.
 */
static Unpublished
write_mark(const Tables &t, int64 mark)
{
	const SpiArgument argument[] = {{INT8OID, Int64GetDatum(mark), false}};
	with_spi_as(t.owner, [&] {
		spi_execute("SELECT pg_catalog.setval('pgq_ext.token_mark', GREATEST(last_value + 1, $1)) "
					"FROM pgq_ext.token_mark",
					argument);
	});
	XLogFlush(XactLastRecEnd);
	return {t.token_mark, XactLastRecEnd, mark};
}

static void
publish(Database *db, int64 mark)
{
	pg_atomic_write_u64(&db->marked_token, mark);
}

void
close_token_mark(Database *db)
{
	publish(db, closed_mark(static_cast<int64>(value_of(db->marked_token))));
	/*
	 * Wait for claims that have read the old mark. A claim reads the mark and draws its tokens in
	 * one hold of the queue's lock, so take the lock of each queue once.
	 */
	for_each_queue(db, [](const QueueRef &ref) { (void) change_queue(ref, [](QueueHold &) {}); });
}

void
advance_token_mark(int64 lead, bool wait, int commit_level)
{
	static constexpr int64 kAhead = 60 * USECS_PER_SEC;
	Oid sequence = look_at_tables().token_mark;
	/*
	 * Let only one process at a time write the mark, since otherwise the mark could go back. The
	 * lock is released before the transaction ends.
	 */
	if (wait)
		LockRelationOid(sequence, ShareUpdateExclusiveLock);
	else if (!ConditionalLockRelationOid(sequence, ShareUpdateExclusiveLock))
		return;
	/*
	 * After the wait for the lock, the extension may be gone, or may be another incarnation. Then
	 * do nothing: the caller will notice the change.
	 */
	const Tables *t = tables_if_attached();
	if (t != nullptr && t->token_mark == sequence && !token_mark_is_ahead(t->database, lead))
	{
		/*
		 * Without `wait` (the scheduler), write no new mark if the last mark of this process is far
		 * enough ahead: perhaps that mark is not published yet only because the standby does not
		 * have it. With `wait`, always write a greater mark: the shutdown save may have saved
		 * leases with the last mark, and a greater mark makes these leases void.
		 */
		if (wait || unpublished.sequence != sequence || unpublished.mark < token_ahead_by(lead))
			unpublished = write_mark(*t, token_ahead_by(kAhead));
		if (wait)
			wait_for_standby(unpublished.lsn);
		if (is_replicated(unpublished.lsn, commit_level))
			publish(t->database, unpublished.mark);
	}
	UnlockRelationOid(sequence, ShareUpdateExclusiveLock);
}

} // namespace pgq
