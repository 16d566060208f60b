#include "claim/session_lease.h"

#include "engine/hold.h"
#include "txn/session_end.h"

namespace pgq {

namespace {

struct SessionLease
{
	QueueRef ref;
	Lease *lease;
	uint64 serial;
};

} // namespace
/*
 * The session-bound leases of this session. Entries of leases that have ended are removed only when
 * the array is full.
 */
static constinit SessionLease *leases = nullptr;
static constinit int size = 0;
static constinit int room = 0;

void
lose_session_lease(const QueueRef &ref, Lease *lease, uint64 serial)
{
	(void) change_queue(ref, [&](QueueHold &hold) {
		if (serial_of(lease) == serial && lease->state == LeaseState::kClaimed && !lease->doomed)
			hold.doom(lease, Loss::kSessionEnded, monotonic_now());
	});
}

static void
end_session_leases()
{
	while (size > 0)
	{
		const SessionLease &entry = leases[--size];
		lose_session_lease(entry.ref, entry.lease, entry.serial);
	}
}

static void
forget_ended()
{
	int kept = 0;
	for (int i = 0; i < size; i++)
		if (serial_of(leases[i].lease) == leases[i].serial)
			leases[kept++] = leases[i];
	size = kept;
}

void
reserve_session_leases(int n)
{
	at_session_end(end_session_leases);
	if (size + n > room)
		forget_ended();
	if (size + n <= room)
		return;
	int wanted = Max(2 * (size + n), 64);
	Size bytes = mul_size(wanted, sizeof(SessionLease));
	leases = static_cast<SessionLease *>(leases == nullptr
											 ? MemoryContextAllocHuge(TopMemoryContext, bytes)
											 : repalloc_huge(leases, bytes));
	room = wanted;
}

void
note_session_lease(const QueueRef &ref, Lease *lease, uint64 serial)
{
	Assert(size < room);
	leases[size++] = {ref, lease, serial};
}

} // namespace pgq
