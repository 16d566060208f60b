#include "catalog/topic_table.h"

#include "catalog/column.h"
#include "catalog/own_object.h"
#include "catalog/own_trigger.h"
#include "catalog/version.h"

#include <iterator>

namespace pgq {

static constexpr Column binding_columns[] = {
	{"queue_id", kInt4}, {"pattern", kText}, {"when_full", kText}};
static constexpr Column pattern_columns[] = {{"pattern_id", kInt4}, {"pattern", kText}};

static const char *
name_of_topic_table(TopicTable table)
{
	return table == TopicTable::kBinding ? "topic_binding" : "topic_pattern";
}

Oid
find_topic_table(TopicTable table)
{
	Oid oid = get_relname_relid(name_of_topic_table(table), get_namespace_oid("pgq_ext", true));
	return is_member(RelationRelationId, oid) ? oid : InvalidOid;
}

[[noreturn]] static void
complain_no_topic_table(TopicTable table)
{
	if (look_at_version() != Served::kOwn)
		report_versions(ERROR);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"pgq_ext.%s\" is missing", name_of_topic_table(table)),
			 errdetail("There is no table of this name that belongs to the extension pgq_ext."),
			 errhint("If the table was renamed, give it its name again.")));
}

static void
check_topic_table(TopicTable table, Relation rel)
{
	if (table == TopicTable::kBinding)
		check_first_columns(rel, binding_columns, std::size(binding_columns));
	else
		check_first_columns(rel, pattern_columns, std::size(pattern_columns));
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"pgq_ext.%s\" is unlogged", name_of_topic_table(table)),
				 errdetail("A crash of the server would remove all of its rows."),
				 errhint("Run ALTER TABLE pgq_ext.%s SET LOGGED.", name_of_topic_table(table))));
}

bool
lock_topic_table(TopicTable table, LOCKMODE mode)
{
	Relation rel = nullptr;
	/* The table may be renamed or dropped during the wait for its lock. */
	while (rel == nullptr)
	{
		Oid oid = find_topic_table(table);
		if (!OidIsValid(oid))
			complain_no_topic_table(table);
		rel = try_table_open(oid, mode);
		if (rel == nullptr || find_topic_table(table) == oid)
			continue;
		table_close(rel, mode);
		rel = nullptr;
	}
	check_topic_table(table, rel);
	bool tells = has_all_triggers(rel, name_of_topic_table(table));
	table_close(rel, NoLock);
	return tells;
}

void
invalidate_topic_table(TopicTable table)
{
	CacheInvalidateRelcacheByRelid(find_topic_table(table));
}

} // namespace pgq
