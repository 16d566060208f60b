#include "engine/batch_watch.h"

#include "engine/quota.h"
#include "engine/registry.h"
#include "pg/scope.h"

#include <algorithm>

namespace pgq {

/* Protected by the batches lock. */
struct BatchWatch
{
	BatchTable table; /* a database has the number of its slot here */
	/*
	 * Indexed by the slots of databases: the OID of the database if its scheduler has begun to
	 * watch batches, otherwise 0. No two slots have the same OID here. The scheduler reads the
	 * entry of its own slot without the lock, too.
	 */
	Relaxed<Oid> *watched;
};
static_assert(std::is_trivially_copyable_v<BatchWatch> && std::is_standard_layout_v<BatchWatch>);

static constexpr int kNoSlot = -1;

int64
watched_batch_bytes()
{
	/*
	 * Raising the setting by one batch adds more than one entry, since the own parts of all
	 * databases grow, too (quota.h).
	 */
	return sizeof(BatchTable::Entry) * static_cast<int64>(quota_entries(max_watched_batches)) /
		   max_watched_batches;
}

Size
batch_watch_size()
{
	Size size = add_size(MAXALIGN(sizeof(BatchWatch)),
						 mul_size(quota_entries(max_watched_batches), sizeof(BatchTable::Entry)));
	return add_size(size,
					mul_size(max_databases, sizeof(BatchTable::Database) + sizeof(Relaxed<Oid>)));
}

void
place_batch_watch(void *memory)
{
	memset(memory, 0, batch_watch_size());
	auto *watch = static_cast<BatchWatch *>(memory);
	auto *entries = reinterpret_cast<BatchTable::Entry *>(static_cast<char *>(memory) +
														  MAXALIGN(sizeof(BatchWatch)));
	auto *databases =
		reinterpret_cast<BatchTable::Database *>(entries + quota_entries(max_watched_batches));
	watch->watched = reinterpret_cast<Relaxed<Oid> *>(databases + max_databases);
	watch->table.init(entries, databases, max_databases, own_part(max_watched_batches),
					  common_part(max_watched_batches));
	shared->batch_watch = watch;
}

/*
 * Return the slot of the database, or kNoSlot if no scheduler has begun to watch its batches. With
 * kNoSlot nothing has to be noted: the scheduler will begin with a look at all batches.
 */
static int
watched_slot(Oid database)
{
	const Relaxed<Oid> *watched = shared->batch_watch->watched;
	for (int i = 0; i < shared->max_databases; i++)
		if (watched[i] == database)
			return i;
	return kNoSlot;
}

/* Return the slot of the database if this process is its scheduler. */
static int
own_slot(Oid database)
{
	int slot = watched_slot(database);
	bool mine = slot != kNoSlot &&
				value_of(shared->databases[slot].scheduler) == static_cast<uint32>(my_procno()) + 1;
	return mine ? slot : kNoSlot;
}

/*
 * Call look(table, slot) while holding the batches lock in shared mode. Returns false if no
 * scheduler watches the batches of the database.
 */
template <typename Look>
static bool
look_at_batches(Oid database, Look look)
{
	return with_lwlock(shared->batches_lock, LW_SHARED, [&] {
		int slot = watched_slot(database);
		return slot != kNoSlot && look(std::as_const(shared->batch_watch->table), slot);
	});
}

/*
 * Call tell(table, slot) while holding the batches lock. If tell() returns true, wake the scheduler
 * after the release of the lock.
 */
template <typename Tell>
static void
tell_scheduler(Oid database, Tell tell)
{
	int slot = kNoSlot;
	bool wake = with_lwlock(shared->batches_lock, LW_EXCLUSIVE, [&] {
		slot = watched_slot(database);
		return slot != kNoSlot && tell(shared->batch_watch->table, slot);
	});
	if (wake)
		wake_scheduler(&shared->databases[slot]);
}

/*
 * Call change(table, slot) while holding the batches lock. Returns false if this process is not the
 * scheduler of the database.
 */
template <typename Change>
static bool
change_batches(Oid database, Change change)
{
	return with_lwlock(shared->batches_lock, LW_EXCLUSIVE, [&] {
		int slot = own_slot(database);
		return slot != kNoSlot && change(shared->batch_watch->table, slot);
	});
}

/* Free the entries of the slot, in several holds of the lock. */
static void
drop_entries(int slot)
{
	while (with_lwlock(shared->batches_lock, LW_EXCLUSIVE,
					   [&] { return shared->batch_watch->table.drop(slot, kHoldMax); }))
		;
}

/* ---- telling ---- */

void
tell_batch(Oid database, const BatchTold &told)
{
	/*
	 * Most ends of members change nothing in the table. So most transactions take the lock only
	 * once, in shared mode.
	 */
	if (look_at_batches(
			database, [&](const BatchTable &table, int slot) { return table.is_news(slot, told); }))
		tell_scheduler(database,
					   [&](BatchTable &table, int slot) { return table.tell(slot, told); });
}

void
tell_all_batches(Oid database)
{
	tell_scheduler(database, [](BatchTable &table, int slot) { return table.tell_all(slot); });
}

/* ---- looking ---- */

/*
 * Watch the batches of the slot of which this process is the scheduler. Stop watching any other
 * slot of the database, which belongs to an earlier incarnation of the extension.
 */
static int
watch_own_slot(Oid database)
{
	BatchWatch *watch = shared->batch_watch;
	int own = kNoSlot;
	for (int i = 0; i < shared->max_databases; i++)
	{
		const Database *db = &shared->databases[i];
		bool mine = db->state == SlotState::kUsed && db->oid == database &&
					value_of(db->scheduler) == static_cast<uint32>(my_procno()) + 1;
		if (mine)
			own = i;
		else if (watch->watched[i] == database)
			watch->watched[i] = InvalidOid;
	}
	if (own == kNoSlot)
		return kNoSlot;
	watch->watched[own] = database;
	(void) watch->table.tell_all(own);
	return own;
}

void
begin_watching_batches(Oid database)
{
	int slot =
		with_lwlock(shared->batches_lock, LW_EXCLUSIVE, [&] { return watch_own_slot(database); });
	/*
	 * The entries of the last scheduler are not needed: `all` is raised, so all batches are looked
	 * at.
	 */
	if (slot != kNoSlot)
		drop_entries(slot);
}

bool
next_told_batch(Oid database, int64 *batch_id)
{
	return change_batches(
		database, [=](BatchTable &table, int slot) { return table.next_told(slot, batch_id); });
}

void
begin_look(Oid database, int64 batch_id)
{
	(void) change_batches(database, [=](BatchTable &table, int slot) {
		table.begin_look(slot, batch_id);
		return true;
	});
}

static void
end_look(Oid database, int64 batch_id, BatchTable::State to, int64 witness)
{
	(void) change_batches(database, [=](BatchTable &table, int slot) {
		table.end_look(slot, batch_id, to, witness);
		return true;
	});
}

void
await_witness(Oid database, int64 batch_id, int64 job_id)
{
	end_look(database, batch_id, BatchTable::State::kWaits, job_id);
}

void
await_change(Oid database, int64 batch_id)
{
	end_look(database, batch_id, BatchTable::State::kOpen, 0);
}

void
forget_batch(Oid database, int64 batch_id)
{
	end_look(database, batch_id, BatchTable::State::kNone, 0);
}

void
put_back_batch(Oid database, int64 batch_id)
{
	(void) change_batches(database, [=](BatchTable &table, int slot) {
		table.put_back(slot, batch_id);
		return true;
	});
}

bool
take_all_told(Oid database)
{
	return change_batches(database,
						  [](BatchTable &table, int slot) { return table.take_all(slot); });
}

bool
has_told_batches(Oid database)
{
	int slot = own_slot(database);
	const BatchTable &table = shared->batch_watch->table;
	return slot != kNoSlot && (table.all(slot) || table.told(slot) > 0);
}

int
count_told_batches(Oid database)
{
	int slot = own_slot(database);
	return slot == kNoSlot ? 0 : static_cast<int>(shared->batch_watch->table.told(slot));
}

/* ---- the reconciler ---- */

bool
next_awaited(Oid database, int *position, int64 *batch_id, int64 *witness)
{
	bool found = false, more = true;
	while (more && !found)
		more = look_at_batches(database, [&](const BatchTable &table, int slot) {
			if (const BatchTable::Entry *entry = table.next_awaited(slot, position, kHoldMax))
			{
				*batch_id = entry->batch_id;
				*witness = entry->witness;
				found = true;
			}
			return *position < table.capacity();
		});
	return found;
}

bool
repair_batch(Oid database, int64 batch_id, int64 witness)
{
	return change_batches(database, [=](BatchTable &table, int slot) {
		return table.repair(slot, batch_id, witness);
	});
}

/* ---- the registry and views ---- */

void
forget_batches(const Database *slot)
{
	int number = static_cast<int>(slot - shared->databases);
	with_lwlock(shared->batches_lock, LW_EXCLUSIVE, [=] {
		shared->batch_watch->watched[number] = InvalidOid;
		(void) shared->batch_watch->table.take_all(number);
	});
	drop_entries(number);
}

WatchedBatches
read_watched_batches()
{
	return with_lwlock(shared->batches_lock, LW_SHARED, [] {
		const BatchTable &table = shared->batch_watch->table;
		WatchedBatches read = {0, 0, table.common_used(), table.common_peak()};
		for (int i = 0; i < shared->max_databases; i++)
		{
			read.used = std::max(read.used, table.used(i));
			read.peak = std::max(read.peak, table.peak(i));
		}
		return read;
	});
}

} // namespace pgq
