#include "catalog/owner_sql.h"

#include "catalog/own_object.h"
#include "catalog/tables.h"

namespace pgq {

/* ---- the owner ---- */

Oid
common_owner()
{
	const Tables &t = look_at_tables();
	auto check = [&](Oid relid) {
		Oid owner = owner_of(relid);
		/*
		 * Accept that two superusers own the tables: after a restore by another superuser, that
		 * superuser owns the segments.
		 */
		if (owner == t.owner || (superuser_arg(owner) && superuser_arg(t.owner)))
			return;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the tables of pgq_ext have different owners"),
				 errdetail("Table \"pgq_ext.queue\" belongs to \"%s\", \"pgq_ext.%s\" to \"%s\".",
						   GetUserNameFromId(t.owner, true), get_rel_name(relid),
						   GetUserNameFromId(owner, true)),
				 errhint("Look for triggers, rules and indexes that are not the extension's. Then "
						 "give all tables to one owner with ALTER TABLE ... OWNER TO.")));
	};
	for (Oid table : {t.unique_key(), t.timetable(), t.held_lock(), t.run(), t.rate_limit()})
		check(table);
	for (Oid table : t.ring)
		check(table);
	for (Oid table : {t.queue_handler(), t.job_checkpoint(), t.job_batch(), t.batch_note(),
					  t.job_dependency(), t.job_outcome()})
		if (OidIsValid(table))
			check(table);
	for (const Segment &segment : t.all_segments())
		check(segment.heap);
	/*
	 * Version 0.1 has no such tables. A table of that name may belong to a user, and then does not
	 * matter.
	 */
	Oid schema = get_namespace_oid("pgq_ext", false);
	for (const char *name : {"shard", "topic_binding", "topic_pattern"})
		if (Oid table = get_relname_relid(name, schema); is_member(RelationRelationId, table))
			check(table);
	return t.owner;
}

Oid
owner_of_tables()
{
	Oid schema = get_namespace_oid("pgq_ext", true);
	return OidIsValid(schema) ? owner_of(get_relname_relid("queue", schema)) : InvalidOid;
}

/* ---- SQL ---- */

void
read_few_rows()
{
	static const struct
	{
		const char *name;
		const char *value;
	} options[] = {
		{"lock_timeout", "100ms"},
		{"enable_seqscan", "off"},
		{"enable_bitmapscan", "off"},
		{"enable_sort", "off"},
	};
	for (const auto &option : options)
		(void) set_config_option(option.name, option.value, PGC_SUSET, PGC_S_SESSION,
								 GUC_ACTION_LOCAL, true, 0, false);
}

static void
switch_off(const char *option)
{
	(void) set_config_option(option, "off", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
							 false);
}

void
find_by_index()
{
	switch_off("enable_seqscan");
	switch_off("enable_bitmapscan");
}

void
read_in_order()
{
	find_by_index();
	switch_off("enable_sort");
}

void
spi_connect()
{
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
}

void
spi_begin()
{
	/*
	 * Let a trigger fire only if it is ENABLE ALWAYS or REPLICA. Otherwise a role that has only the
	 * TRIGGER privilege on a table could run code with the owner's rights.
	 */
	(void) set_config_option("session_replication_role", "replica", PGC_SUSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	spi_connect();
}

void
spi_run(const char *format, ...)
{
	char sql[1024];
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(sql, sizeof(sql), format, arguments);
	va_end(arguments);
	if (length < 0 || length >= static_cast<int>(sizeof(sql)))
		elog(ERROR, "SQL command too long");
	int result = SPI_execute(sql, false, 0);
	if (result < 0)
		elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
}

static SPIPlanPtr
prepare(const char *sql, int n, Oid *types, int options)
{
	SPIPlanPtr plan = SPI_prepare_cursor(sql, n, types, options);
	if (plan == nullptr)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	return plan;
}

/* Return the plan that is kept, if any; otherwise plan the statement. kept: NULL, or where to keep it. */
static SPIPlanPtr
plan_of(KeptPlan *kept, const char *sql, int n, Oid *types)
{
	if (kept == nullptr)
		return prepare(sql, n, types, 0);
	if (*kept == nullptr)
	{
		SPIPlanPtr plan = prepare(sql, n, types, CURSOR_OPT_GENERIC_PLAN);
		if (SPI_keepplan(plan) != 0)
			elog(ERROR, "SPI_keepplan failed");
		*kept = reinterpret_cast<KeptPlan>(plan);
	}
	return reinterpret_cast<SPIPlanPtr>(*kept);
}

namespace {

/* Arguments of a statement as SPI wants them. */
struct SpiArrays
{
	Oid types[kSpiArgumentsMax];
	Datum values[kSpiArgumentsMax];
	char nulls[kSpiArgumentsMax];
};

} // namespace

static SpiArrays
arrays_of(const SpiArgument *arguments, int n)
{
	SpiArrays arrays;
	Assert(n <= kSpiArgumentsMax);
	for (int i = 0; i < n; i++)
	{
		arrays.types[i] = arguments[i].type;
		arrays.values[i] = arguments[i].value;
		arrays.nulls[i] = arguments[i].is_null ? 'n' : ' ';
	}
	return arrays;
}

static uint64
execute_planned(KeptPlan *kept, const char *sql, const SpiArgument *arguments, int n)
{
	SpiArrays arrays = arrays_of(arguments, n);
	SPIPlanPtr plan = plan_of(kept, sql, n, arrays.types);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	int result = SPI_execute_snapshot(plan, arrays.values, arrays.nulls, snapshot, InvalidSnapshot,
									  false, true, 0);
	UnregisterSnapshot(snapshot);
	if (result < 0)
		elog(ERROR, "SPI_execute_snapshot failed: %s", SPI_result_code_string(result));
	return SPI_processed;
}

uint64
spi_execute(const char *sql, const SpiArgument *arguments, int n)
{
	return execute_planned(nullptr, sql, arguments, n);
}

uint64
spi_execute_kept(KeptPlan *plan, const char *sql, const SpiArgument *arguments, int n)
{
	return execute_planned(plan, sql, arguments, n);
}

Portal
spi_open(const char *sql, const SpiArgument *arguments, int n)
{
	SpiArrays arrays = arrays_of(arguments, n);
	SPIPlanPtr plan = prepare(sql, n, arrays.types, 0);
	/* Let the snapshot see the changes of earlier commands of this transaction. */
	CommandCounterIncrement();
	PushActiveSnapshot(GetLatestSnapshot());
	Portal cursor = SPI_cursor_open(nullptr, plan, arrays.values, arrays.nulls, true);
	PopActiveSnapshot();
	return cursor;
}

uint64
spi_fetch(Portal cursor, long most)
{
	SPI_cursor_fetch(cursor, true, most);
	return SPI_processed;
}

/* SAVE, as in spi_begin(): at one level of nesting the server allows no SAVE after a LOCAL change. */
void
keep_plans()
{
	(void) set_config_option("session_replication_role", "replica", PGC_SUSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

Datum
spi_value(int row, int column, Oid type, bool *is_null)
{
	check_result(SPI_tuptable->tupdesc, column, type);
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, is_null);
}

Datum
spi_value(int row, int column, Oid type)
{
	bool is_null;
	Datum value = spi_value(row, column, type, &is_null);
	if (is_null)
		complain_null(SPI_tuptable->tupdesc, column);
	return value;
}

} // namespace pgq
