#include "engine/prepared_entry.h"

#include "engine/queue.h"
#include "pg/scope.h"

namespace pgq {

Size
prepared_entries_size()
{
	return mul_size(max_prepared_xacts,
					add_size(sizeof(PreparedEntry), mul_size(max_queues, sizeof(Touched))));
}

void
place_prepared_entries(void *memory)
{
	shared->prepared_entries = static_cast<PreparedEntry *>(memory);
	auto *touched = reinterpret_cast<Touched *>(shared->prepared_entries + max_prepared_xacts);
	for (int i = 0; i < max_prepared_xacts; i++)
	{
		shared->prepared_entries[i] = {};
		shared->prepared_entries[i].touched = touched + static_cast<Size>(i) * max_queues;
	}
}

PreparedEntry *
take_free_entry()
{
	return with_lwlock(shared->registry_lock, LW_EXCLUSIVE, []() -> PreparedEntry * {
		for (int i = 0; i < max_prepared_xacts; i++)
		{
			PreparedEntry *entry = &shared->prepared_entries[i];
			if (entry->state != PreparedEntry::kFree)
				continue;
			entry->state = PreparedEntry::kReserved;
			return entry;
		}
		return nullptr;
	});
}

void
activate_entry(PreparedEntry *entry, Oid database, TransactionId xid)
{
	pg_atomic_fetch_add_u32(&shared->watched, 1);
	with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] {
		entry->database = database;
		entry->xid = xid;
		entry->state = PreparedEntry::kActive;
	});
}

void
free_entry(PreparedEntry *entry)
{
	with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] { entry->state = PreparedEntry::kFree; });
}

TransactionId
xid_of_entry(const PreparedEntry *entry)
{
	return with_lwlock(shared->registry_lock, LW_SHARED, [&] {
		return entry->state == PreparedEntry::kActive ? entry->xid : InvalidTransactionId;
	});
}

bool
begin_resolving(PreparedEntry *entry, TransactionId xid)
{
	return with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] {
		if (entry->state != PreparedEntry::kActive || entry->xid != xid)
			return false;
		entry->state = PreparedEntry::kResolving;
		return true;
	});
}

bool
resolving_prepared()
{
	return with_lwlock(shared->registry_lock, LW_SHARED, []() -> bool {
		for (int i = 0; i < max_prepared_xacts; i++)
			if (shared->prepared_entries[i].state == PreparedEntry::kResolving)
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
			const PreparedEntry &entry = shared->prepared_entries[i];
			bool open =
				entry.state == PreparedEntry::kActive || entry.state == PreparedEntry::kResolving;
			if (open && entry.all_queues && entry.database == database)
				xids[n++] = entry.xid;
		}
		return n;
	});
}

static bool
is_watched(TransactionId xid)
{
	for (int i = 0; i < max_prepared_xacts; i++)
		if (shared->prepared_entries[i].state == PreparedEntry::kActive &&
			shared->prepared_entries[i].xid == xid)
			return true;
	return false;
}

/*
 * Return whether there are free entries for all of these prepared transactions. The server cannot
 * have more prepared transactions than there are entries. But sessions that are about to prepare a
 * transaction may have reserved entries for a moment.
 */
bool
has_free_entries(const TransactionId *prepared, int n)
{
	int free_entries = 0;
	for (int i = 0; i < max_prepared_xacts; i++)
		free_entries += shared->prepared_entries[i].state == PreparedEntry::kFree;
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
		PreparedEntry *entry = &shared->prepared_entries[i];
		if (entry->state != PreparedEntry::kFree)
			continue;
		entry->xid = xid;
		entry->database = database;
		entry->all_queues = true;
		memset(entry->touched, 0, shared->max_queues * sizeof(Touched));
		entry->state = PreparedEntry::kListed;
		return;
	}
}

void
activate_listed(Oid database)
{
	for (int i = 0; i < max_prepared_xacts; i++)
	{
		PreparedEntry *entry = &shared->prepared_entries[i];
		if (entry->state != PreparedEntry::kListed || entry->database != database)
			continue;
		entry->state = PreparedEntry::kActive;
		pg_atomic_fetch_add_u32(&shared->watched, 1);
	}
}

} // namespace pgq
