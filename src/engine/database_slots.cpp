#include "engine/registry.h"

#include "engine/batch_watch.h"
#include "engine/child_watch.h"
#include "engine/invalidate.h"
#include "engine/named/lock_ends.h"
#include "engine/named/named_rate.h"
#include "engine/prepared_entry.h"
#include "engine/token.h"
#include "pg/scope.h"

namespace pgq {

Size
databases_size()
{
	return mul_size(max_databases, sizeof(Database));
}

void
place_databases(void *memory)
{
	Assert(reinterpret_cast<uintptr_t>(memory) % alignof(Database) == 0);
	shared->databases = static_cast<Database *>(memory);
	memset(memory, 0, databases_size());
	for (int i = 0; i < max_databases; i++)
	{
		Database *db = &shared->databases[i];
		pg_atomic_init_u32(&db->generation, 1);
		pg_atomic_init_u32(&db->scheduler, 0);
		pg_atomic_init_u64(&db->marked_token, 0);
		pg_atomic_init_u64(&db->clock_mark, 0);
		pg_atomic_init_u64(&db->reconciled, 0);
		pg_atomic_init_u32(&db->locks_doubted, 1);
		pg_atomic_init_u32(&db->sweep_wanted, 0);
		pg_atomic_init_u32(&db->locks_loaded, 0);
		pg_atomic_init_u32(&db->definition_changes, 0);
		init_child_watch(&db->children);
		init_lease_quota(&db->share);
		init_rings(db);
	}
}

static Database *
database_slot(Oid oid, Oid incarnation)
{
	for (int i = 0; i < shared->max_databases; i++)
	{
		Database *db = &shared->databases[i];
		if (db->state == SlotState::kUsed && db->oid == oid && db->incarnation == incarnation)
			return db;
	}
	return nullptr;
}

Database *
find_database(Oid oid, Oid incarnation)
{
	return with_lwlock(shared->registry_lock, LW_SHARED,
					   [&] { return database_slot(oid, incarnation); });
}

/*
 * Return whether the slot is in use and still has this generation. Called under the registry lock.
 */
static bool
is_load(const Database *db, uint32 generation)
{
	return db->state == SlotState::kUsed && generation_of(db) == generation;
}

Load
read_load(const Database *db, uint32 generation)
{
	return with_lwlock(shared->registry_lock, LW_SHARED, [&]() -> Load {
		if (!is_load(db, generation))
			return {};
		return {db->base_prefix, db->mark_before, db->token_key, db->failed_checks};
	});
}

uint32
note_failed_check(Database *db, uint32 generation)
{
	return with_lwlock(shared->registry_lock, LW_EXCLUSIVE,
					   [&] { return is_load(db, generation) ? ++db->failed_checks : 0; });
}

static void
fill_database(Database *db, Oid oid, Oid incarnation, const DurableTokens &tokens)
{
	pg_atomic_fetch_add_u32(&db->generation, 1);
	db->oid = oid;
	db->incarnation = incarnation;
	db->base_prefix = begin_prefixes(tokens.mark);
	db->mark_before = tokens.mark;
	db->token_key = tokens.key;
	db->failed_checks = 0;
	pg_atomic_write_u64(&db->marked_token, tokens.mark);
	begin_clock_mark(db, time_of_prefix(prefix_of(tokens.mark)));
	pg_atomic_write_u32(&db->scheduler, 0);
	pg_atomic_write_u64(&db->reconciled, 0);
	pg_atomic_write_u32(&db->locks_doubted, 1);
	pg_atomic_write_u32(&db->locks_loaded, 0);
	db->rates_known_since = monotonic_now();
	db->clock = {};
	begin_watching_children(db);
	memset(db->duties, 0, sizeof(db->duties));
	reset_rings(db);
	db->state = SlotState::kLoading;
}

/* Return a free slot, or NULL. Called under the registry lock. */
static Database *
free_database_slot()
{
	for (int i = 0; i < shared->max_databases; i++)
		if (shared->databases[i].state == SlotState::kFree)
			return &shared->databases[i];
	return nullptr;
}

Database *
attach_database(Oid oid, Oid incarnation, const DurableTokens &tokens,
				const TransactionId *prepared, int n)
{
	bool watchable = true;
	Database *attached = with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&]() -> Database * {
		watchable = has_free_entries(prepared, n);
		Database *db = watchable ? free_database_slot() : nullptr;
		if (db == nullptr)
			return nullptr;
		fill_database(db, oid, incarnation, tokens);
		for (int i = 0; i < n; i++)
			list_recovered(oid, prepared[i]);
		return db;
	});
	if (!watchable)
		ereport(
			ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("too many transactions are being prepared"),
			 errhint(
				 "Try again, or raise max_prepared_transactions (now %d) and restart the server.",
				 max_prepared_xacts)));
	return attached;
}

void
publish_database(Database *db)
{
	with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] {
		db->state = SlotState::kUsed;
		activate_listed(db->oid);
	});
}

void
free_database(Database *db, uint32 generation)
{
	bool ours = with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] {
		if (db->state != SlotState::kUsed || pg_atomic_read_u32(&db->generation) != generation)
			return false;
		db->state = SlotState::kDying;
		pg_atomic_fetch_add_u32(&db->generation, 1);
		return true;
	});
	if (!ours)
		return;
	for_each_queue(db, [](const QueueRef &ref) { free_queue(ref); });
	free_locks(db->oid, db->incarnation);
	free_rates(db->oid, db->incarnation);
	forget_batches(db);
	with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] { db->state = SlotState::kFree; });
}

int
note_slots(SlotNote *notes)
{
	return with_lwlock(shared->registry_lock, LW_SHARED, [=] {
		int n = 0;
		for (int i = 0; i < shared->max_databases; i++)
		{
			Database *db = &shared->databases[i];
			if (db->state == SlotState::kUsed)
				notes[n++] = {db, generation_of(db), db->oid, db->incarnation};
		}
		return n;
	});
}

bool
is_attached(Oid oid)
{
	for (int i = 0; i < shared->max_databases; i++)
		if (shared->databases[i].state == SlotState::kUsed && shared->databases[i].oid == oid)
			return true;
	return false;
}

bool
has_scheduler(Oid oid)
{
	for (int i = 0; i < shared->max_databases; i++)
		if (shared->databases[i].state == SlotState::kUsed && shared->databases[i].oid == oid &&
			pg_atomic_read_u32(&shared->databases[i].scheduler) != 0)
			return true;
	return false;
}

static void
wake_process(uint32 procno_plus_one)
{
	if (procno_plus_one != 0)
		SetLatch(latch_of(procno_plus_one - 1));
}

void
wake_launcher()
{
	wake_process(pg_atomic_read_u32(&shared->launcher));
}

void
announce_extension()
{
	pg_atomic_fetch_add_u32(&shared->announcements, 1);
	wake_launcher();
}

void
wake_scheduler(const Database *db)
{
	wake_process(value_of(db->scheduler));
}

/*
 * Reads the slots without a lock. A slot that is just being attached may be missed; the scheduler
 * of that database reads the schedules anyway when it starts.
 */
void
tell_of_definitions(Oid database)
{
	for (int i = 0; i < shared->max_databases; i++)
	{
		Database *db = &shared->databases[i];
		if (db->state != SlotState::kUsed || db->oid != database)
			continue;
		pg_atomic_fetch_add_u32(&db->definition_changes, 1);
		wake_scheduler(db);
	}
}

} // namespace pgq
