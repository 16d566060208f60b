/*
 * A dump of the data alone is restored into a database that has the extension, and no queue yet: it copies rows to
 * segments that are not there. They are made when the first of them is named.
 */
#include "api/restore.h"

#include "api/by_hand.h"
#include "catalog/rights.h"
#include "catalog/version.h"
#include "core/ring.h"
#include "engine/shared.h"
#include "jobs/queue_admin.h"

namespace pgq {

static constinit ProcessUtility_hook_type next_hook = nullptr;

/* Return the table of a COPY or ALTER TABLE, the first statements of a data dump that name a table; otherwise NULL. */
static const RangeVar *
table_of(const Node *statement)
{
	if (statement == nullptr)
		return nullptr;
	if (IsA(statement, CopyStmt))
		return reinterpret_cast<const CopyStmt *>(statement)->relation;
	if (IsA(statement, AlterTableStmt))
		return reinterpret_cast<const AlterTableStmt *>(statement)->relation;
	return nullptr;
}

static bool
is_name_of_segment(const char *name)
{
	for (int i = 0; i < kAllSegments; i++)
		if (strcmp(name, psprintf("%s_%d", rings[ring_of(i)].table, i)) == 0)
			return true;
	return false;
}

static bool
is_missing_segment(const RangeVar *table)
{
	if (table == nullptr || table->schemaname == nullptr ||
		strcmp(table->schemaname, "pgq_ext") != 0 || !is_name_of_segment(table->relname))
		return false;
	Oid schema = get_namespace_oid("pgq_ext", true);
	return OidIsValid(schema) && !OidIsValid(get_relname_relid(table->relname, schema));
}

static void
process_utility(PlannedStmt *statement, const char *query, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *environment,
				DestReceiver *receiver, QueryCompletion *completion)
{
	ProcessUtility_hook_type next = next_hook != nullptr ? next_hook : standard_ProcessUtility;
	if (is_believed() && is_missing_segment(table_of(statement->utilityStmt)) &&
		OidIsValid(get_extension_oid("pgq_ext", true)) && version_served() && is_owner())
		make_segments();
	next(statement, query, read_only_tree, context, params, environment, receiver, completion);
}

void
restore_init()
{
	next_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}

} // namespace pgq
