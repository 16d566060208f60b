/*
 * Restore of a data-only dump into a database that has the extension but no queue yet. The dump
 * copies rows to segments. So all segments are created when a statement first names a segment.
 */
#include "api/restore.h"

#include "admin/queue_admin.h"
#include "api/by_hand.h"
#include "catalog/rights.h"
#include "catalog/version.h"
#include "core/ring.h"
#include "engine/shared.h"
#include "pg/virtual_xid.h"

namespace pgq {

static constinit ProcessUtility_hook_type next_hook = nullptr;
static constinit object_access_hook_type next_access_hook = nullptr;

/*
 * Return the table of a COPY or ALTER TABLE statement; nullptr for other statements. In a data-only
 * dump, the first statement that names a table is a COPY or an ALTER TABLE.
 */
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
is_missing(const char *segment)
{
	Oid schema = get_namespace_oid("pgq_ext", true);
	return OidIsValid(schema) && !OidIsValid(get_relname_relid(segment, schema));
}

static bool
is_missing_segment(const RangeVar *table)
{
	return table != nullptr && table->schemaname != nullptr &&
		   strcmp(table->schemaname, "pgq_ext") == 0 && is_name_of_segment(table->relname) &&
		   is_missing(table->relname);
}

static bool
may_make_segments()
{
	return OidIsValid(get_extension_oid("pgq_ext", true)) && version_served() && is_owner();
}

static void
process_utility(PlannedStmt *statement, const char *query, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *environment,
				DestReceiver *receiver, QueryCompletion *completion)
{
	ProcessUtility_hook_type next = next_hook != nullptr ? next_hook : standard_ProcessUtility;
	if (is_believed() && is_missing_segment(table_of(statement->utilityStmt)) &&
		may_make_segments())
		make_segments();
	next(statement, query, read_only_tree, context, params, environment, receiver, completion);
}

/*
 * Return whether the statement is an INSERT, as written by pg_dump --inserts, into a segment that
 * does not exist.
 */
static bool
inserts_into_missing_segment(const char *statement)
{
	static constexpr char kInsert[] = "INSERT INTO pgq_ext.";
	static constexpr Size kStart = sizeof(kInsert) - 1;
	statement += strspn(statement, "\n");
	if (strncmp(statement, kInsert, kStart) != 0)
		return false;
	char name[NAMEDATALEN];
	Size length = strcspn(statement + kStart, " ");
	strlcpy(name, statement + kStart, Min(length + 1, sizeof(name)));
	return is_name_of_segment(name) && is_missing(name);
}

/*
 * Create the segments when an INSERT names a segment. The INSERT fails before any hook sees its
 * table, but the lookup of the table's schema calls this hook. Creating the segments looks up the
 * schema, too, and so calls this hook again. So the hook creates the segments only if no active
 * subtransaction has done so. ROLLBACK TO SAVEPOINT ends such a subtransaction and undoes the
 * creation; the next INSERT then creates the segments again.
 */
static void
access_object(ObjectAccessType access, Oid class_id, Oid object, int sub_object, void *arg)
{
	static constinit VirtualTransactionId made_by = {};
	static constinit SubTransactionId made_in = InvalidSubTransactionId;
	if (next_access_hook != nullptr)
		next_access_hook(access, class_id, object, sub_object, arg);
	if (access != OAT_NAMESPACE_SEARCH || check_function_bodies || debug_query_string == nullptr ||
		(is_me(made_by) && SubTransactionIsActive(made_in)) ||
		!inserts_into_missing_segment(debug_query_string) || !may_make_segments())
		return;
	made_by = my_virtual_xid();
	made_in = GetCurrentSubTransactionId();
	make_segments();
}

void
restore_init()
{
	next_access_hook = object_access_hook;
	object_access_hook = access_object;
	next_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}

} // namespace pgq
