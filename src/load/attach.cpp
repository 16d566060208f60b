#include "load/attach.h"

#include "catalog/incarnation.h"
#include "catalog/owner_sql.h"
#include "catalog/token_key.h"
#include "catalog/token_mark.h"
#include "load/saved_lease.h"
#include "pg/scope.h"
#include "txn/effects.h"

namespace pgq {

/*
 * List the prepared transactions of this database. Call this function before anything is read from
 * the queues of the database (protocol: prepared-is-watched).
 */
static int
prepared_transactions(TransactionId *xids)
{
	if (max_prepared_xacts == 0)
		return 0;
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	const SpiArgument here[] = {{OIDOID, ObjectIdGetDatum(MyDatabaseId), false}};
	int n = static_cast<int>(spi_execute("SELECT transaction FROM pg_catalog.pg_prepared_xact() "
										 "WHERE dbid OPERATOR(pg_catalog.=) $1",
										 here));
	for (int i = 0; i < n; i++)
		xids[i] = DatumGetTransactionId(spi_value(i, 1, XIDOID));
	SPI_finish();
	return n;
}

[[noreturn]] static void
complain_full()
{
	bool undecided = is_attached(MyDatabaseId);
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("pgq_ext is in use in too many databases"),
			 undecided
				 ? errdetail("This database already takes one of the places, because a transaction "
							 "that drops or creates the extension here is still open.")
				 : 0,
			 undecided
				 ? errhint("End that transaction, or raise pgq_ext.max_databases (now %d) and "
						   "restart the server.",
						   max_databases)
				 : errhint("Raise pgq_ext.max_databases (now %d) and restart the server.",
						   max_databases)));
}

/*
 * Attach a slot. If no slot is free, free the slots of incarnations that are gone, and try again.
 */
static Database *
attach_slot(const Tables &t, const DurableTokens &tokens, const TransactionId *prepared, int n)
{
	Database *db = attach_database(MyDatabaseId, t.queue, tokens, prepared, n);
	if (db == nullptr && free_gone_incarnations() > 0)
		db = attach_database(MyDatabaseId, t.queue, tokens, prepared, n);
	if (db == nullptr)
		complain_full();
	return db;
}

/*
 * Fill a slot for this database, restore the saved leases, and only then publish the slot. All
 * steps that can fail come first and change no shared memory. The changes of shared memory cannot
 * fail, so no process sees a part of the changes. The caller holds the lock of the token mark, so
 * no other process attaches the database or advances the mark at the same time.
 */
static void
attach(const Tables &t)
{
	auto *xids =
		static_cast<TransactionId *>(palloc((max_prepared_xacts + 1) * sizeof(TransactionId)));
	if (any_prepared())
		resolve_prepared(); /* frees entries for the transactions that are listed next */
	int n = prepared_transactions(xids);
	TokenKey key = read_token_key(t.token_key());
	int64 mark = read_token_mark(t.token_mark);
	SavedLeases saved = read_saved_leases(t, mark, xids, n);
	Database *db = attach_slot(t, {mark, key}, xids, n);
	with_interrupts_held([&] {
		restore_leases(db, &saved);
		publish_database(db);
	});
	free_saved_leases(&saved);
	pfree(xids);
}

const Tables &
tables()
{
	const Tables *t = &look_at_tables();
	while (!is_attached(*t))
	{
		Oid sequence = t->token_mark;
		LockRelationOid(sequence, ShareUpdateExclusiveLock);
		t = &look_at_tables();
		if (t->token_mark == sequence && !is_attached(*t))
		{
			attach(*t);
			t = &look_at_tables();
		}
		UnlockRelationOid(sequence, ShareUpdateExclusiveLock);
	}
	return *t;
}

} // namespace pgq
