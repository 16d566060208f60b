#include "schedules/cron_schedule.h"

#include "catalog/owner_sql.h"
#include "catalog/rights.h"
#include "enqueue/enqueuer.h"
#include "enqueue/job_json.h"
#include "load/attach.h"
#include "pg/clock.h"
#include "txn/effects.h"

namespace pgq {

/* ---- what a schedule says ---- */

static constexpr const char *missed_words[] = {"skip", "one", "all"};

Missed
missed_of(const char *word)
{
	for (int i = 0; i < static_cast<int>(lengthof(missed_words)); i++)
		if (strcmp(word, missed_words[i]) == 0)
			return static_cast<Missed>(i);
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("invalid value for missed: \"%s\"", word),
					errhint("Available values: skip, one, all.")));
}

static Datum
headers_of_tick(const ScheduleSpec &schedule, TimestampTz tick)
{
	pg_tm tm;
	fsec_t fraction;
	StringInfoData json;
	initStringInfo(&json);
	appendStringInfoString(&json, "{\"schedule\": ");
	escape_json(&json, schedule.name);
	if (timestamp2tm(tick, nullptr, &tm, &fraction, nullptr, nullptr) != 0)
		elog(ERROR, "timestamp out of range");
	appendStringInfo(&json, ", \"scheduled_at\": \"%04d-%02d-%02dT%02d:%02d:%02d+00:00\"}",
					 tm.tm_year, tm.tm_mon, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
}

JobSpec
job_of_tick(const ScheduleSpec &schedule, TimestampTz tick)
{
	JobSpec spec{};
	Datum headers = headers_of_tick(schedule, tick);
	Datum given;
	if (schedule.options != nullptr)
		spec = job_of_options(schedule.options);
	if (find_attribute(spec, "headers", &given))
	{
		if (!JB_ROOT_IS_OBJECT(DatumGetJsonbP(given)))
			ereport(
				ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("headers of a schedule must be a JSON object"),
				 errhint(
					 "Pass an object, for example '{\"source\": \"cron\"}'. The scheduler adds the "
					 "keys \"schedule\" and \"scheduled_at\" to the headers of each job.")));
		headers = DirectFunctionCall2(jsonb_concat, given, headers);
	}
	set_attribute(&spec, "headers", headers);
	set_attribute(&spec, "payload", schedule.payload);
	return spec;
}

/* ---- verbs ---- */

static SpiArgument
text_argument(const char *text)
{
	return {TEXTOID, CStringGetTextDatum(text), false};
}

static SpiArgument
time_argument(TimestampTz time)
{
	return {TIMESTAMPTZOID, TimestampTzGetDatum(time), time == DT_NOEND};
}

/* Like time_argument(), but pass infinity as a timestamp, not as NULL. */
static SpiArgument
moment_argument(TimestampTz time)
{
	return {TIMESTAMPTZOID, TimestampTzGetDatum(time), false};
}

/* Copy a column of the first row of the result to `context`; returns a null pointer for NULL. */
static Datum
copied_value(MemoryContext context, int column, Oid type)
{
	bool is_null;
	Datum value = spi_value(0, column, type, &is_null);
	if (is_null)
		return Datum{0};
	int16 length;
	bool by_value;
	get_typlenbyval(type, &length, &by_value);
	MemoryContext caller = MemoryContextSwitchTo(context);
	Datum copy = datumCopy(value, by_value, length);
	MemoryContextSwitchTo(caller);
	return copy;
}

/* Like copied_value(), but raises 55000 for NULL. */
static Datum
copied_needed(MemoryContext context, int column, Oid type)
{
	(void) spi_value(0, column, type);
	return copied_value(context, column, type);
}

static char *
copied_text(MemoryContext context, int column)
{
	Datum value = copied_needed(context, column, TEXTOID);
	MemoryContext caller = MemoryContextSwitchTo(context);
	char *copy = TextDatumGetCString(value);
	MemoryContextSwitchTo(caller);
	return copy;
}

/*
 * If a call changes neither cron nor time zone, keep the time of the next tick. Otherwise a client
 * that repeats the call often would delay the tick again and again.
 */
#define PGQ_NEXT_RUN                                                       \
	"CASE WHEN t.cron = EXCLUDED.cron AND t.timezone = EXCLUDED.timezone " \
	"THEN COALESCE(t.next_run_at, EXCLUDED.next_run_at) ELSE EXCLUDED.next_run_at END"

static constexpr char kMake[] =
	"INSERT INTO pgq_ext.timetable AS t (schedule, cron, timezone, queue, payload, options, "
	"missed, "
	"maker_name, next_run_at, due_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9) "
	"ON CONFLICT (schedule) DO UPDATE SET cron = EXCLUDED.cron, timezone = EXCLUDED.timezone, "
	"queue = EXCLUDED.queue, payload = EXCLUDED.payload, options = EXCLUDED.options, "
	"missed = EXCLUDED.missed, maker = EXCLUDED.maker, maker_name = EXCLUDED.maker_name, "
	"next_run_at = " PGQ_NEXT_RUN ", due_at = " PGQ_NEXT_RUN ", failures = 0, last_error = NULL "
	"WHERE t.queue = EXCLUDED.queue OR t.queue = $10";

/*
 * Raise an error unless the caller is the maker of the schedule or the owner of the extension.
 * Called for a schedule whose queue does not exist, so that there are no rights on the queue to
 * check.
 */
static void
require_maker(const char *name, Oid maker, const char *queue)
{
	if (is_owner() || (OidIsValid(maker) && has_privs_of_role(GetUserId(), maker)))
		return;
	ereport(
		ERROR,
		(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
		 errmsg("permission denied for schedule \"%s\"", name),
		 errdetail("Queue \"%s\" does not exist, so no right on the queue can permit this.", queue),
		 errhint("The role that made the schedule, or the owner of the extension, may change or "
				 "drop it.")));
}

/*
 * Lock the schedule's row and return the name of its queue; NULL if there is no such schedule.
 * Raises 42501 unless the caller may enqueue to the queue or administers it. If the queue does not
 * exist, the caller must be the maker of the schedule.
 */
static char *
lock_schedule(const char *name)
{
	MemoryContext context = CurrentMemoryContext;
	char *queue = nullptr;
	bool has_queue = false;
	int32 queue_id = 0;
	Oid maker = InvalidOid;
	const SpiArgument key[] = {text_argument(name)};
	as_owner([&] {
		bool no_queue;
		if (spi_execute("SELECT t.queue, (SELECT q.queue_id FROM pgq_ext.queue q "
						"WHERE q.queue = t.queue), t.maker "
						"FROM pgq_ext.timetable t WHERE t.schedule = $1 FOR UPDATE OF t",
						key) == 0)
			return;
		queue = copied_text(context, 1);
		queue_id = DatumGetInt32(spi_value(0, 2, INT4OID, &no_queue));
		has_queue = !no_queue;
		maker = DatumGetObjectId(copied_value(context, 3, OIDOID));
	});
	if (queue != nullptr && !has_queue)
		require_maker(name, maker, queue);
	if (has_queue && !may(Permission::kAdminister, queue_id))
		require_right(Permission::kEnqueue, queue_id, queue);
	return queue;
}

/*
 * Write the schedule's row. The trigger of the table looks up the OID of the maker by name, and
 * wakes the scheduler.
 */
void
make_schedule(const ScheduleSpec &schedule)
{
	char *maker = GetUserNameFromId(GetUserId(), false);
	TimestampTz next = first_tick_after(timing_of(schedule.cron, schedule.timezone), wall_now());
	SpiArgument arguments[] = {
		text_argument(schedule.name),
		text_argument(schedule.cron),
		text_argument(schedule.timezone),
		text_argument(schedule.queue),
		{JSONBOID, schedule.payload, false},
		{JSONBOID, PointerGetDatum(schedule.options), schedule.options == nullptr},
		text_argument(missed_words[static_cast<int>(schedule.missed)]),
		text_argument(maker),
		time_argument(next),
		{}};
	require_enqueuer(GetUserId(), maker, of_schedule);
	/*
	 * Try again if another session has, in between, made a schedule of that name for another queue,
	 * on which this caller's right was not checked.
	 */
	for (bool made = false; !made;)
	{
		char *before = lock_schedule(schedule.name);
		arguments[9] =
			before != nullptr ? text_argument(before) : SpiArgument{TEXTOID, Datum{0}, true};
		as_owner([&] { made = spi_execute(kMake, arguments) > 0; });
		CHECK_FOR_INTERRUPTS();
	}
}

bool
drop_schedule(const char *name)
{
	const SpiArgument arguments[] = {text_argument(name)};
	uint64 dropped = 0;
	if (lock_schedule(name) == nullptr)
		return false;
	as_owner([&] {
		dropped = spi_execute("DELETE FROM pgq_ext.timetable WHERE schedule = $1", arguments);
	});
	return dropped > 0;
}

[[noreturn]] static void
complain_unknown(const char *name)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("schedule \"%s\" does not exist", name),
		 errhint(
			 "See pgq_ext.schedule for the existing schedules. Use pgq_schedule for a new one.")));
}

void
pause_schedule(const char *name)
{
	const SpiArgument arguments[] = {text_argument(name)};
	uint64 paused = 0;
	if (lock_schedule(name) == nullptr)
		complain_unknown(name);
	as_owner([&] {
		paused = spi_execute("UPDATE pgq_ext.timetable SET paused = true WHERE schedule = $1",
							 arguments);
	});
	if (paused == 0)
		complain_unknown(name);
}

static Jsonb *
copied_jsonb(MemoryContext context, int column)
{
	Datum value = copied_value(context, column, JSONBOID);
	MemoryContext caller = MemoryContextSwitchTo(context);
	Jsonb *copy = DatumGetPointer(value) != nullptr ? DatumGetJsonbP(value) : nullptr;
	MemoryContextSwitchTo(caller);
	return copy;
}

/* Resume a paused schedule. A schedule that is not paused stays as it is. */
void
resume_schedule(const char *name)
{
	MemoryContext context = CurrentMemoryContext;
	bool found = false;
	const SpiArgument key[] = {text_argument(name)};
	if (lock_schedule(name) == nullptr)
		complain_unknown(name);
	as_owner([&] {
		found = spi_execute("SELECT cron, timezone, paused FROM pgq_ext.timetable "
							"WHERE schedule = $1 FOR UPDATE",
							key) > 0;
		if (!found || !DatumGetBool(spi_value(0, 3, BOOLOID)))
			return;
		Timing timing = timing_of(copied_text(context, 1), copied_text(context, 2));
		const SpiArgument arguments[] = {text_argument(name),
										 time_argument(tick_after(timing, wall_now()))};
		spi_execute("UPDATE pgq_ext.timetable SET paused = false, next_run_at = $2, due_at = $2, "
					"failures = 0 WHERE schedule = $1",
					arguments);
	});
	if (!found)
		complain_unknown(name);
}

/* ---- for the scheduler ---- */

/*
 * Read the row that the query of take_due_schedule() has found, by the column numbers of that
 * query.
 */
static DueSchedule *
read_due(MemoryContext context)
{
	auto *due = static_cast<DueSchedule *>(MemoryContextAllocZero(context, sizeof(DueSchedule)));
	due->schedule.name = copied_text(context, 1);
	due->schedule.cron = copied_text(context, 2);
	due->schedule.timezone = copied_text(context, 3);
	due->schedule.queue = copied_text(context, 4);
	due->schedule.payload = copied_needed(context, 5, JSONBOID);
	due->schedule.options = copied_jsonb(context, 6);
	due->missed = copied_text(context, 7);
	due->next_run_at = DatumGetTimestampTz(spi_value(0, 8, TIMESTAMPTZOID));
	due->failures = DatumGetInt32(spi_value(0, 9, INT4OID));
	due->maker = DatumGetObjectId(copied_value(context, 10, OIDOID));
	due->maker_name = copied_text(context, 11);
	return due;
}

DueSchedule *
take_due_schedule(TimestampTz from, TimestampTz now)
{
	MemoryContext context = CurrentMemoryContext;
	DueSchedule *due = nullptr;
	const SpiArgument arguments[] = {time_argument(now), moment_argument(from)};
	as_owner([&] {
		if (spi_execute("SELECT schedule, cron, timezone, queue, payload, options, missed, "
						"COALESCE(next_run_at, due_at), failures, maker, maker_name "
						"FROM pgq_ext.timetable WHERE NOT paused AND due_at <= $1 AND due_at >= $2 "
						"ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED",
						arguments) > 0)
			due = read_due(context);
	});
	return due;
}

TimestampTz
next_due_schedule(TimestampTz from)
{
	TimestampTz next = DT_NOEND;
	const SpiArgument arguments[] = {moment_argument(from)};
	as_owner([&] {
		if (spi_execute("SELECT due_at FROM pgq_ext.timetable WHERE NOT paused AND due_at >= $1 "
						"ORDER BY due_at LIMIT 1",
						arguments) > 0)
			next = DatumGetTimestampTz(spi_value(0, 1, TIMESTAMPTZOID));
	});
	return next;
}

void
note_tick(const DueSchedule &due, const TickResult &result)
{
	/* Store the maker's present role name, by which a restored dump finds the role. */
	char *maker = GetUserNameFromId(due.maker, true);
	bool fired = result.last_job_id != 0;
	const SpiArgument arguments[] = {
		text_argument(due.schedule.name),
		time_argument(result.next_run_at),
		time_argument(result.due_at),
		{INT4OID, Int32GetDatum(result.failures), false},
		{TIMESTAMPTZOID, TimestampTzGetDatum(result.fired_at), !fired},
		{INT8OID, Int64GetDatum(result.last_job_id), !fired},
		{TEXTOID, result.error != nullptr ? CStringGetTextDatum(result.error) : (Datum) 0,
		 result.error == nullptr},
		text_argument(maker != nullptr ? maker : due.maker_name)};
	as_owner([&] {
		spi_execute("UPDATE pgq_ext.timetable SET next_run_at = $2, due_at = $3, failures = $4, "
					"last_run_at = COALESCE($5, last_run_at), last_job_id = COALESCE($6, "
					"last_job_id), last_error = $7, maker_name = $8 WHERE schedule = $1",
					arguments);
	});
}

/*
 * Look up all makers again. Any UPDATE of the column maker makes the trigger look up the role by
 * maker_name.
 */
void
find_makers()
{
	read_few_rows();
	as_owner([] { spi_run("UPDATE pgq_ext.timetable SET maker = NULL"); });
	note_changed_definitions();
}

} // namespace pgq
