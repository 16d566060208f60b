#include "jobs/session_lease.h"

#include "engine/hold.h"

namespace pgq {

struct SessionLease
{
	QueueRef ref;
	Lease *lease;
	uint64 serial;
};

/* Those of this session, and some that have ended since: they are left out when room is needed. */
static constinit SessionLease *leases = nullptr;
static constinit int size = 0;
static constinit int room = 0;
static constinit bool watched = false; /* at_exit is registered */

/* One that could not be lost any more, or was, is not ours to end. */
static void
lose_if_ours(const SessionLease &entry, int64 monotonic)
{
	(void) change_queue(entry.ref, [&](QueueHold &hold) {
		Lease *lease = entry.lease;
		if (serial_of(lease) == entry.serial && lease->state == LeaseState::kClaimed &&
			!lease->doomed)
			hold.doom(lease, Loss::kSessionEnded, monotonic);
	});
}

static void
end_session_leases()
{
	int64 monotonic = monotonic_now();
	while (size > 0)
		lose_if_ours(leases[--size], monotonic);
}

/* After its transaction, if there was one, has been undone: that is done before shared memory is left. */
static void
at_exit(int, Datum)
{
	end_session_leases();
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
	if (!watched)
		on_shmem_exit(at_exit, (Datum) 0);
	watched = true;
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

/* ---- DISCARD ALL ---- */

static constinit ProcessUtility_hook_type next_hook = nullptr;

/* What a pooler says when a client has left its server session. */
static bool
gives_up_session(const PlannedStmt *statement)
{
	const Node *node = statement->utilityStmt;
	return node != nullptr && IsA(node, DiscardStmt) &&
		   reinterpret_cast<const DiscardStmt *>(node)->target == DISCARD_ALL;
}

static void
process_utility(PlannedStmt *statement, const char *query, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *environment,
				DestReceiver *receiver, QueryCompletion *completion)
{
	ProcessUtility_hook_type next = next_hook != nullptr ? next_hook : standard_ProcessUtility;
	bool gives_up = size > 0 && gives_up_session(statement);
	next(statement, query, read_only_tree, context, params, environment, receiver, completion);
	if (gives_up)
		end_session_leases();
}

void
session_leases_init()
{
	next_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}

} // namespace pgq
