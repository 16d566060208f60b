#include "engine/child_watch.h"

namespace pgq {

void
init_child_watch(ChildWatch *watch)
{
	pg_atomic_init_u32(&watch->childless, 0);
	pg_atomic_init_u64(&watch->rows_came_at, 0);
	pg_atomic_init_u32(&watch->told, 1);
	pg_atomic_init_u32(&watch->all, 1);
	pg_atomic_init_u64(&watch->all_from, PG_UINT64_MAX);
	for (ToldJobs *set : {&watch->children, &watch->parents})
		for (pg_atomic_uint64 &place : set->id)
			pg_atomic_init_u64(&place, 0);
}

void
begin_watching_children(Database *db)
{
	pg_atomic_write_u32(&db->children.childless, 0);
	pg_atomic_write_u32(&db->children.all, 1);
	/*
	 * The exchange is a full barrier, so `all` is set before `told`. The scheduler judges all
	 * children, also children of which memory was told before.
	 */
	pg_atomic_exchange_u32(&db->children.told, 1);
}

void
expect_children(Database *db)
{
	if (!may_have_children(db))
		pg_atomic_write_u32(&db->children.childless, 0);
	/*
	 * A full barrier: `childless` is cleared before the dependency is inserted, and before the
	 * parents are looked at.
	 */
	pg_memory_barrier();
}

void
expect_no_children(Database *db)
{
	pg_atomic_write_u32(&db->children.childless, 1);
}

void
note_rows_came(Database *db)
{
	pg_atomic_write_u64(db != nullptr ? &db->children.rows_came_at : &shared->rows_came_at,
						static_cast<uint64>(monotonic_now()));
}

bool
rows_may_come(const Database *db)
{
	static constexpr int64 kWhile = 5 * USECS_PER_MINUTE;
	auto came_at = static_cast<int64>(
		Max(value_of(db->children.rows_came_at), value_of(shared->rows_came_at)));
	return came_at != 0 && monotonic_now() - came_at < kWhile;
}

/* ---- the set ---- */

/* Return the place at which the search for the id begins. */
static uint32
first_place(int64 id)
{
	return static_cast<uint32>((static_cast<uint64>(id) * UINT64CONST(0x9E3779B97F4A7C15)) >> 54);
}
static_assert(kToldJobs == 1U << 10);

/*
 * Add the id to the set. Returns false if the kTries places from its first place on have other ids.
 * An id that is in the set already need not be added: the scheduler takes its snapshot after it has
 * taken the id out of the set.
 */
static bool
add_told(ToldJobs *set, int64 job_id)
{
	static constexpr uint32 kTries = 16;
	auto id = static_cast<uint64>(job_id);
	for (uint32 i = 0; i < kTries; i++)
	{
		pg_atomic_uint64 *place = &set->id[(first_place(job_id) + i) % kToldJobs];
		uint64 there = 0;
		if (pg_atomic_compare_exchange_u64(place, &there, id) || there == id)
			return true;
	}
	return false;
}

static int
take_set(ToldJobs *set, int64 (&ids)[kToldJobs])
{
	int n = 0;
	for (pg_atomic_uint64 &place : set->id)
		if (pg_atomic_read_u64(&place) != 0)
			ids[n++] = static_cast<int64>(pg_atomic_exchange_u64(&place, 0));
	return n;
}

/* ---- telling ---- */

/*
 * Call note() for each slot of the database. Reads the slots without a lock, so a slot that is just
 * being attached may be missed. That does no harm, since begin_watching_children() of the new slot
 * lets all children be judged.
 */
template <typename Note>
static void
tell_slots(Oid database, Note note)
{
	/* A full barrier: the transaction is visible to others before the set is read or written. */
	pg_memory_barrier();
	for (int i = 0; i < shared->max_databases; i++)
	{
		Database *db = &shared->databases[i];
		if (db->state != SlotState::kUsed || db->oid != database)
			continue;
		note(&db->children);
		pg_atomic_exchange_u32(&db->children.told, 1);
		wake_scheduler(db);
	}
}

/* New children have the greatest ids, so those that were blocked before are not judged again. */
static void
add_from(ChildWatch *watch, int64 child_id)
{
	auto id = static_cast<uint64>(child_id);
	uint64 from = pg_atomic_read_u64(&watch->all_from);
	while (id < from && !pg_atomic_compare_exchange_u64(&watch->all_from, &from, id))
		;
}

void
tell_child(Oid database, int64 child_id)
{
	tell_slots(database, [=](ChildWatch *watch) {
		if (!add_told(&watch->children, child_id))
			add_from(watch, child_id);
	});
}

void
tell_children_from(Oid database, int64 child_id)
{
	tell_slots(database, [=](ChildWatch *watch) { add_from(watch, child_id); });
}

void
tell_parent(Oid database, int64 parent_id)
{
	tell_slots(database, [=](ChildWatch *watch) {
		if (!add_told(&watch->parents, parent_id))
			pg_atomic_exchange_u32(&watch->all, 1);
	});
}

void
tell_all_children(Oid database)
{
	tell_slots(database, [](ChildWatch *watch) { pg_atomic_exchange_u32(&watch->all, 1); });
}

void
take_told_jobs(Database *db, ToldTaken *taken)
{
	ChildWatch *watch = &db->children;
	*taken = {};
	taken->all_from = INT64_MAX;
	/* Clear `told` first: a process that adds an id from here on sets `told` again. */
	if (pg_atomic_exchange_u32(&watch->told, 0) == 0)
		return;
	taken->all = pg_atomic_exchange_u32(&watch->all, 0) != 0;
	uint64 from = pg_atomic_exchange_u64(&watch->all_from, PG_UINT64_MAX);
	if (from != PG_UINT64_MAX)
		taken->all_from = static_cast<int64>(from);
	taken->children = take_set(&watch->children, taken->child);
	taken->parents = take_set(&watch->parents, taken->parent);
}

} // namespace pgq
