/*
 * pgq_create_queue, pgq_alter_queue, pgq_rename_queue, pgq_pause_queue, pgq_resume_queue,
 * pgq_drop_queue and pgq_purge_queue.
 */
#include "admin/queue_admin.h"
#include "api/args.h"
#include "catalog/option_value.h"
#include "catalog/queue_row.h"
#include "load/attach.h"
#include "row_changes/watch_list.h"

#include <algorithm>

namespace pgq {

namespace {
/* The arguments of the called function, with their names. */
struct NamedArguments
{
	FunctionCallInfo fcinfo;
	int n;
	char **names;
	Oid *types;
};

} // namespace

static NamedArguments
arguments_of(FunctionCallInfo fcinfo)
{
	NamedArguments arguments{.fcinfo = fcinfo};
	char *modes;
	HeapTuple function = SearchSysCache1(PROCOID, ObjectIdGetDatum(fcinfo->flinfo->fn_oid));
	if (!HeapTupleIsValid(function))
		elog(ERROR, "cache lookup failed for function %u", fcinfo->flinfo->fn_oid);
	arguments.n = get_func_arg_info(function, &arguments.types, &arguments.names, &modes);
	ReleaseSysCache(function);
	return arguments;
}

/* Get an argument by its name. Returns false if the argument is NULL. */
static bool
passed(const NamedArguments &arguments, const char *name, Oid type, Datum *value)
{
	for (int i = 0; i < arguments.n && arguments.names != nullptr; i++)
		if (strcmp(arguments.names[i], name) == 0 && arguments.types[i] == type)
		{
			*value = arguments.fcinfo->args[i].value;
			return given(arguments.fcinfo, i);
		}
	elog(ERROR, "the function has no argument %s of type %s", name, format_type_be(type));
}

/* Get the argument for option i. Returns false if it is NULL, or if the function of 0.1 lacks it. */
static bool
passed(const NamedArguments &arguments, int i, Datum *value)
{
	const char *name = queue_options[i].name;
	if (is_later_option(i) && arguments.names != nullptr &&
		std::none_of(arguments.names, arguments.names + arguments.n,
					 [=](const char *argument) { return strcmp(argument, name) == 0; }))
		return false;
	return passed(arguments, name, type_of(queue_options[i].kind), value);
}

static bool
create_queue(FunctionCallInfo fcinfo)
{
	char *name = queue_name(required(fcinfo, 0, "queue"));
	NamedArguments arguments = arguments_of(fcinfo);
	Datum value;
	Datum options[kQueueOptions] = {};
	QueueOptions together{};
	for (int i = 0; i < kQueueOptions; i++)
	{
		const QueueOption &option = queue_options[i];
		if (!option.is_argument)
			continue;
		if (!passed(arguments, i, &options[i]))
			options[i] = value_from(type_of(option.kind), option.initial);
		check_option(option, options[i]);
		set_option(&together, option, options[i]);
	}
	check_together(together);
	bool if_not_exists = passed(arguments, "if_not_exists", BOOLOID, &value) && DatumGetBool(value);
	return create_queue(name, options, if_not_exists);
}

/* Change the options whose arguments are not NULL. */
static void
alter_queue(FunctionCallInfo fcinfo)
{
	char *name = queue_name(required(fcinfo, 0, "queue"));
	NamedArguments arguments = arguments_of(fcinfo);
	Datum options[kQueueOptions] = {};
	bool given[kQueueOptions] = {};
	for (int i = 0; i < kQueueOptions; i++)
	{
		const QueueOption &option = queue_options[i];
		if (!option.is_argument)
			continue;
		given[i] = passed(arguments, i, &options[i]);
		if (given[i])
			check_option(option, options[i]);
	}
	alter_queue(name, options, given);
}

static void
set_paused(FunctionCallInfo fcinfo, bool paused)
{
	char *name = queue_name(required(fcinfo, 0, "queue"));
	Datum options[kQueueOptions] = {};
	bool given[kQueueOptions] = {};
	for (int i = 0; i < kQueueOptions; i++)
		if (queue_options[i].place == offsetof(QueueOptions, paused))
		{
			options[i] = BoolGetDatum(paused);
			given[i] = true;
		}
	alter_queue(name, options, given);
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_create_queue);
PG_FUNCTION_INFO_V1(pgq_alter_queue);
PG_FUNCTION_INFO_V1(pgq_rename_queue);
PG_FUNCTION_INFO_V1(pgq_pause_queue);
PG_FUNCTION_INFO_V1(pgq_resume_queue);
PG_FUNCTION_INFO_V1(pgq_drop_queue);
PG_FUNCTION_INFO_V1(pgq_purge_queue);
PG_FUNCTION_INFO_V1(pgq_is_leased);

PGDLLEXPORT Datum
pgq_create_queue(PG_FUNCTION_ARGS)
{
	start_write("pgq_create_queue()");
	PG_RETURN_BOOL(create_queue(fcinfo));
}

PGDLLEXPORT Datum
pgq_alter_queue(PG_FUNCTION_ARGS)
{
	start_write("pgq_alter_queue()");
	alter_queue(fcinfo);
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_rename_queue(PG_FUNCTION_ARGS)
{
	start_write("pgq_rename_queue()");
	char *name = queue_name(required(fcinfo, 0, "queue"));
	rename_queue(name, queue_name(required(fcinfo, 1, "new_name")));
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_pause_queue(PG_FUNCTION_ARGS)
{
	start_write("pgq_pause_queue()");
	set_paused(fcinfo, true);
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_resume_queue(PG_FUNCTION_ARGS)
{
	start_write("pgq_resume_queue()");
	set_paused(fcinfo, false);
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_drop_queue(PG_FUNCTION_ARGS)
{
	start_write("pgq_drop_queue()");
	char *name = queue_name(required(fcinfo, 0, "queue"));
	bool if_exists = given(fcinfo, 1) && PG_GETARG_BOOL(1);
	bool force = given(fcinfo, 2) && PG_GETARG_BOOL(2);
	PG_RETURN_BOOL(drop_queue(name, if_exists, force, refuse_watched_queue));
}

PGDLLEXPORT Datum
pgq_purge_queue(PG_FUNCTION_ARGS)
{
	start_write("pgq_purge_queue()");
	char *name = queue_name(required(fcinfo, 0, "queue"));
	PG_RETURN_INT64(purge_queue(resolve_queue_to_empty(tables(), name, nullptr)));
}

/*
 * Internal function: returns whether a worker has the job, a claim is looking at the job, or a
 * transaction holds the job.
 */
PGDLLEXPORT Datum
pgq_is_leased(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.is_leased()");
	PG_RETURN_BOOL(is_in_hand(DatumGetInt64(required(fcinfo, 0, "job_id"))));
}
}
