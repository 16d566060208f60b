#include "txn/session_end.h"

namespace pgq {

static constinit SessionEnd ends[2] = {};
static constinit int n = 0;

void
end_session()
{
	for (int i = 0; i < n; i++)
		ends[i]();
}

/*
 * The server calls on_shmem_exit functions after it has aborted an open transaction, and before it
 * detaches from shared memory.
 */
static void
at_exit(int, Datum)
{
	end_session();
}

void
at_session_end(SessionEnd end)
{
	for (int i = 0; i < n; i++)
		if (ends[i] == end)
			return;
	if (n == 0)
		on_shmem_exit(at_exit, (Datum) 0);
	Assert(n < static_cast<int>(lengthof(ends)));
	ends[n++] = end;
}

/* ---- DISCARD ALL ---- */

static constinit ProcessUtility_hook_type next_hook = nullptr;

/*
 * Return whether the statement is DISCARD ALL. A connection pooler sends this statement when a
 * client has left the server session.
 */
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
	bool gives_up = n > 0 && gives_up_session(statement);
	next(statement, query, read_only_tree, context, params, environment, receiver, completion);
	if (gives_up)
		end_session();
}

void
session_end_init()
{
	next_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}

} // namespace pgq
