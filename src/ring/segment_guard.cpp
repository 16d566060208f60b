#include "ring/segment_guard.h"

#include "core/ring.h"
#include "pg/pg.h"

namespace pgq {

static constinit ProcessUtility_hook_type next_process_utility = nullptr;

/*
 * Return whether the segment has its indexes by id and by order, as far as its ring has them. A
 * segment without these indexes is not protected: pg_restore --clean drops the indexes first, and
 * an administrator may do the same.
 */
static bool
has_indexes(const RingSpec &ring, Oid relid, Oid schema)
{
	bool all = true;
	for (IndexName i : {kById, kByOrder})
	{
		const char *index = ring.indexes[i].name;
		if (index != nullptr)
			all &= OidIsValid(
				get_relname_relid(psprintf("%s_%s", get_rel_name(relid), index), schema));
	}
	return all;
}

static bool
is_segment(Oid relid)
{
	Oid schema = get_namespace_oid("pgq_ext", true);
	if (!OidIsValid(schema) || !OidIsValid(relid) || !get_rel_relispartition(relid))
		return false;
	Oid parent = get_partition_parent(relid, true);
	for (const RingSpec &ring : rings)
		if (parent == get_relname_relid(ring.table, schema))
			return has_indexes(ring, relid, schema);
	return false;
}

static void
refuse_segment(const RangeVar *table, const char *what)
{
	Oid relid = RangeVarGetRelid(table, NoLock, true);
	if (!is_segment(relid))
		return;
	const char *parent = get_rel_name(get_partition_parent(relid, true));
	ereport(
		ERROR,
		(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
		 errmsg("cannot %s table pgq_ext.%s because table pgq_ext.%s requires it", what,
				get_rel_name(relid), parent),
		 errdetail(
			 "The table is one of the partitions in which pgq_ext keeps jobs or records of jobs."),
		 errhint("Delete the rows that are not needed, use pgq_drop_queue, or DROP "
				 "EXTENSION pgq_ext.")));
}

static void
refuse_drops(const DropStmt *drop)
{
	ListCell *cell;
	foreach (cell, drop->objects)
		refuse_segment(makeRangeVarFromNameList(lfirst_node(List, cell)), "drop");
}

static void
refuse_detaches(const AlterTableStmt *alter)
{
	ListCell *cell;
	foreach (cell, alter->cmds)
	{
		const auto *command = lfirst_node(AlterTableCmd, cell);
		if (command->subtype == AT_DetachPartition)
			refuse_segment(castNode(PartitionCmd, command->def)->name, "detach");
	}
}

static void
process_utility(PlannedStmt *statement, const char *query, bool read_only,
				ProcessUtilityContext context, ParamListInfo parameters,
				QueryEnvironment *environment, DestReceiver *destination,
				QueryCompletion *completion)
{
	Node *node = statement->utilityStmt;
	if (IsA(node, DropStmt) && castNode(DropStmt, node)->removeType == OBJECT_TABLE)
		refuse_drops(castNode(DropStmt, node));
	else if (IsA(node, AlterTableStmt))
		refuse_detaches(castNode(AlterTableStmt, node));
	auto *next = next_process_utility != nullptr ? next_process_utility : standard_ProcessUtility;
	next(statement, query, read_only, context, parameters, environment, destination, completion);
}

void
segment_guard_init()
{
	next_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}

} // namespace pgq
