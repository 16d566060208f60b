#include "row_changes/target.h"

#include "catalog/own_object.h"
#include "catalog/owner_sql.h"
#include "catalog/queue_row.h"
#include "catalog/topic_rights.h"
#include "catalog/values.h"
#include "load/attach.h"
#include "topics/publish.h"

#include <string_view>

namespace pgq {

static constexpr std::string_view kTopicPrefix = "topic:";
static constexpr std::string_view kQueuePrefix = "queue:";

/* ---- arguments of functions ---- */

static void
set_topic(WatchTarget *target, std::string_view name)
{
	target->is_topic = true;
	name = checked_topic(name);
	memcpy(target->name, name.data(), name.size());
}

WatchTarget
target_of_argument(Datum argument)
{
	WatchTarget target{};
	const text *value = DatumGetTextPP(argument);
	std::string_view given = {VARDATA_ANY(value), static_cast<size_t>(VARSIZE_ANY_EXHDR(value))};
	if (given.starts_with(kTopicPrefix))
	{
		given.remove_prefix(kTopicPrefix.size());
		set_topic(&target, given);
		return target;
	}
	if (given.starts_with(kQueuePrefix))
		given.remove_prefix(kQueuePrefix.size());
	Datum name =
		PointerGetDatum(cstring_to_text_with_len(given.data(), static_cast<int>(given.size())));
	strlcpy(target.name, queue_name(name), sizeof(target.name));
	return target;
}

/* ---- the queue ---- */

/* Read the row of the queue with that id. Returns false if there is none. */
static bool
read_queue(int32 queue_id, char **name, TimestampTz *created_at)
{
	const SpiArgument arguments[] = {{INT4OID, Int32GetDatum(queue_id), false}};
	MemoryContext caller = CurrentMemoryContext;
	bool found = false;
	as_owner([&] {
		found = spi_execute("SELECT queue, created_at FROM pgq_ext.queue WHERE queue_id "
							"OPERATOR(pg_catalog.=) $1",
							arguments) > 0;
		if (found)
		{
			*name = MemoryContextStrdup(caller, TextDatumGetCString(spi_value(0, 1, TEXTOID)));
			*created_at = DatumGetTimestampTz(spi_value(0, 2, TIMESTAMPTZOID));
		}
	});
	return found;
}

void
identify_queue(WatchTarget *target)
{
	char *name;
	target->queue_id = resolve_queue(tables(), target->name, Permission::kEnqueue).queue_id;
	if (!read_queue(target->queue_id, &name, &target->created_at))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("queue \"%s\" does not exist", target->name)));
}

bool
find_target_queue(const WatchTarget &target, char **name)
{
	TimestampTz created_at;
	return read_queue(target.queue_id, name, &created_at) && created_at == target.created_at;
}

/* ---- rights ---- */

/* Return the function of the extension with that name. The schema does not matter. */
static Oid
interface_function(const char *name)
{
	Oid found = InvalidOid;
	CatCList *list = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(name));
	for (int i = 0; i < list->n_members && !OidIsValid(found); i++)
		if (Oid oid = reinterpret_cast<Form_pg_proc>(GETSTRUCT(&list->members[i]->tuple))->oid;
			is_member(ProcedureRelationId, oid))
			found = oid;
	ReleaseSysCacheList(list);
	return found;
}

static constinit bool functions_known = false;

static void
at_function_change(Datum, CacheId, uint32)
{
	functions_known = false;
}

/* Return the OID of pgq_enqueue or pgq_publish, and remember both until a function changes. */
static Oid
function_for(const WatchTarget &target)
{
	static constinit bool watches_functions = false;
	static constinit Oid functions[2] = {};
	int wanted = target.is_topic ? 1 : 0;
	if (!watches_functions)
		CacheRegisterSyscacheCallback(PROCOID, at_function_change, 0);
	watches_functions = true;
	if (!functions_known || !OidIsValid(functions[wanted]))
	{
		/* An error in a search leaves no function, so that the next call searches again. */
		functions[0] = functions[1] = InvalidOid;
		functions_known = true;
		functions[0] = interface_function("pgq_enqueue");
		functions[1] = interface_function("pgq_publish");
	}
	return functions[wanted];
}

static void
require_execute(const WatchTarget &target)
{
	Oid function = function_for(target);
	const char *name = target.is_topic ? "pgq_publish" : "pgq_enqueue";
	if (OidIsValid(function) && has_execute(function, GetUserId()))
		return;
	const char *role = GetUserNameFromId(GetUserId(), false);
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for function %s", name),
			 errdetail("A watch enqueues with the rights of the owner of the table, role \"%s\".",
					   role),
			 errhint("Run GRANT EXECUTE ON FUNCTION %s TO %s.", name, quote_identifier(role))));
}

void
require_right_on_target(const WatchTarget &target)
{
	require_execute(target);
	if (!target.is_topic)
		require_right(Permission::kEnqueue, target.queue_id, target.name);
	else if (!may_publish(target.name))
		complain_no_publish(target.name);
}

/* ---- arguments of triggers ---- */

const char *
name_argument(const WatchTarget &target)
{
	std::string_view prefix = target.is_topic ? kTopicPrefix : kQueuePrefix;
	return psprintf("%s%s", prefix.data(), target.name);
}

const char *
identity_argument(const WatchTarget &target)
{
	return target.is_topic
			   ? ""
			   : psprintf("%d.%lld", target.queue_id, static_cast<long long>(target.created_at));
}

bool
target_of_trigger(const char *name, const char *identity, WatchTarget *target)
{
	*target = {};
	std::string_view given = name;
	target->is_topic = given.starts_with(kTopicPrefix);
	if (!target->is_topic && !given.starts_with(kQueuePrefix))
		return false;
	given.remove_prefix(target->is_topic ? kTopicPrefix.size() : kQueuePrefix.size());
	if (given.size() > (target->is_topic ? kMaxTopicLength : kQueueNameMax))
		return false;
	memcpy(target->name, given.data(), given.size());
	if (target->is_topic)
		return true;
	char *end;
	int64 id = strtoll(identity, &end, 10);
	if (id <= 0 || id > PG_INT32_MAX || *end != '.')
		return false;
	target->queue_id = static_cast<int32>(id);
	target->created_at = strtoll(end + 1, &end, 10);
	return *end == '\0';
}

bool
is_same_target(const WatchTarget &of_trigger, const WatchTarget &of_argument)
{
	char *name;
	if (of_trigger.is_topic != of_argument.is_topic)
		return false;
	if (of_trigger.is_topic || !find_target_queue(of_trigger, &name))
		return strcmp(of_trigger.name, of_argument.name) == 0;
	return strcmp(name, of_argument.name) == 0;
}

} // namespace pgq
