#include "engine/watch.h"

#include "engine/queue.h"
#include "pg/scope.h"

namespace pgq {

Size
watches_size()
{
	return mul_size(max_prepared_xacts,
					add_size(sizeof(Watch), mul_size(max_queues, sizeof(Touched))));
}

void
place_watches(void *memory)
{
	shared->watches = static_cast<Watch *>(memory);
	auto *touched = reinterpret_cast<Touched *>(shared->watches + max_prepared_xacts);
	for (int i = 0; i < max_prepared_xacts; i++)
	{
		shared->watches[i] = {};
		shared->watches[i].touched = touched + static_cast<Size>(i) * max_queues;
	}
}

Watch *
take_free_watch()
{
	return with_lwlock(shared->registry_lock, LW_EXCLUSIVE, []() -> Watch * {
		for (int i = 0; i < max_prepared_xacts; i++)
		{
			Watch *watch = &shared->watches[i];
			if (watch->state != Watch::kFree)
				continue;
			watch->state = Watch::kReserved;
			return watch;
		}
		return nullptr;
	});
}

void
activate_watch(Watch *watch, Oid database, TransactionId xid)
{
	pg_atomic_fetch_add_u32(&shared->watched, 1);
	with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] {
		watch->database = database;
		watch->xid = xid;
		watch->state = Watch::kActive;
	});
}

void
free_watch(Watch *watch)
{
	with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] { watch->state = Watch::kFree; });
}

TransactionId
watched_xid(const Watch *watch)
{
	return with_lwlock(shared->registry_lock, LW_SHARED, [&] {
		return watch->state == Watch::kActive ? watch->xid : InvalidTransactionId;
	});
}

bool
begin_resolving(Watch *watch, TransactionId xid)
{
	return with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] {
		if (watch->state != Watch::kActive || watch->xid != xid)
			return false;
		watch->state = Watch::kResolving;
		return true;
	});
}

bool
resolving_prepared()
{
	return with_lwlock(shared->registry_lock, LW_SHARED, []() -> bool {
		for (int i = 0; i < max_prepared_xacts; i++)
			if (shared->watches[i].state == Watch::kResolving)
				return true;
		return false;
	});
}

int
list_unknown(Oid database, TransactionId *xids)
{
	return with_lwlock(shared->registry_lock, LW_SHARED, [&] {
		int n = 0;
		for (int i = 0; i < max_prepared_xacts; i++)
		{
			const Watch &watch = shared->watches[i];
			bool open = watch.state == Watch::kActive || watch.state == Watch::kResolving;
			if (open && watch.all_queues && watch.database == database)
				xids[n++] = watch.xid;
		}
		return n;
	});
}

static bool
is_watched(TransactionId xid)
{
	for (int i = 0; i < max_prepared_xacts; i++)
		if (shared->watches[i].state == Watch::kActive && shared->watches[i].xid == xid)
			return true;
	return false;
}

/*
 * Return whether there are free entries for all of these prepared transactions. The server cannot
 * have more prepared transactions than there are entries. But sessions that are about to prepare a
 * transaction may have reserved entries for a moment.
 */
bool
can_watch(const TransactionId *prepared, int n)
{
	int free_entries = 0;
	for (int i = 0; i < max_prepared_xacts; i++)
		free_entries += shared->watches[i].state == Watch::kFree;
	int wanted = 0;
	for (int i = 0; i < n; i++)
		wanted += !is_watched(prepared[i]);
	return wanted <= free_entries;
}

void
list_recovered(Oid database, TransactionId xid)
{
	if (is_watched(xid))
		return;
	for (int i = 0; i < max_prepared_xacts; i++)
	{
		Watch *watch = &shared->watches[i];
		if (watch->state != Watch::kFree)
			continue;
		watch->xid = xid;
		watch->database = database;
		watch->all_queues = true;
		memset(watch->touched, 0, shared->max_queues * sizeof(Touched));
		watch->state = Watch::kListed;
		return;
	}
}

void
activate_listed(Oid database)
{
	for (int i = 0; i < max_prepared_xacts; i++)
	{
		Watch *watch = &shared->watches[i];
		if (watch->state != Watch::kListed || watch->database != database)
			continue;
		watch->state = Watch::kActive;
		pg_atomic_fetch_add_u32(&shared->watched, 1);
	}
}

} // namespace pgq
