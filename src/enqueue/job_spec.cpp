#include "enqueue/job_spec.h"

#include "catalog/values.h"

#include <string_view>

namespace pgq {

static bool is_given(const JobSpec &spec, std::string_view name);
static constexpr int place_of(std::string_view name);

static Datum
delayed_until(const JobSpec &spec, Datum value, TimestampTz now)
{
	if (is_given(spec, "run_at"))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cannot specify both delay and run_at"), errhint("Pass one of them.")));
	return TimestampTzGetDatum(moment_after(now, value, "delay"));
}

static Datum
expires_after(const JobSpec &, Datum value, TimestampTz now)
{
	return TimestampTzGetDatum(moment_after(now, value, "expires_in"));
}

static Datum
checked_run_at(const JobSpec &, Datum value, TimestampTz)
{
	return TimestampTzGetDatum(finite_moment(DatumGetTimestampTz(value), "run_at"));
}

static Datum
checked_max_attempts(const JobSpec &, Datum value, TimestampTz)
{
	return Int32GetDatum(in_range(DatumGetInt32(value), 1, INT32_MAX, "max_attempts"));
}

static Datum
checked_group(const JobSpec &, Datum value, TimestampTz)
{
	return key_value(value, "group_key");
}

static Datum
checked_key(const JobSpec &, Datum value, TimestampTz)
{
	return key_value(value, "unique_key");
}

constexpr JobAttribute job_attributes[kJobAttributes] = {
	{.name = "payload", .type = JSONBOID, .column = kJobPayload, .required = true},
	{.name = "priority", .type = INT4OID, .column = kJobPriority},
	{.name = "delay", .type = INTERVALOID, .column = kJobRunAt, .column_value = delayed_until},
	{.name = "run_at", .type = TIMESTAMPTZOID, .column = kJobRunAt, .column_value = checked_run_at},
	{.name = "group_key", .type = TEXTOID, .column = kJobGroupKey, .column_value = checked_group},
	{.name = "unique_key", .type = TEXTOID, .column = kJobUniqueKey, .column_value = checked_key},
	{.name = "unique_until", .type = TEXTOID},
	{.name = "unique_for", .type = INTERVALOID},
	{.name = "on_conflict", .type = TEXTOID},
	{.name = "headers", .type = JSONBOID, .column = kJobHeaders},
	{.name = "max_attempts",
	 .type = INT4OID,
	 .column = kJobMaxAttempts,
	 .column_value = checked_max_attempts},
	{.name = "expires_in",
	 .type = INTERVALOID,
	 .column = kJobExpiresAt,
	 .column_value = expires_after},
	{.name = "batch", .type = INT8OID, .column = kJobBatch, .only_enqueue = true},
	{.name = "after", .type = INT8ARRAYOID, .only_enqueue = true},
	{.name = "on_parent_failure", .type = TEXTOID, .only_enqueue = true},
	{.name = "ref", .type = TEXTOID, .only_enqueue = true},
};

static constexpr int
place_of(std::string_view name)
{
	int i = 0;
	while (name != job_attributes[i].name)
		i++;
	return i;
}

static bool
is_given(const JobSpec &spec, std::string_view name)
{
	return spec.given[place_of(name)];
}

void
set_attribute(JobSpec *spec, const char *name, Datum value)
{
	int place = place_of(name);
	spec->values[place] = value;
	spec->given[place] = true;
}

bool
find_attribute(const JobSpec &spec, const char *name, Datum *value)
{
	*value = spec.values[place_of(name)];
	return is_given(spec, name);
}

/* ---- parents ---- */

const ParentList *
parents_of(const JobSpec &spec)
{
	constexpr int kAfter = place_of("after");
	auto *parents = reinterpret_cast<ParentList *>(DatumGetPointer(spec.values[kAfter]));
	return spec.given[kAfter] && parents->n > 0 ? parents : nullptr;
}

const text *
ref_of(const JobSpec &spec)
{
	constexpr int kRef = place_of("ref");
	return spec.given[kRef] ? DatumGetTextPP(key_value(spec.values[kRef], "ref")) : nullptr;
}

const text *
unique_key_of(const JobSpec &spec)
{
	constexpr int kKey = place_of("unique_key");
	return spec.given[kKey] ? DatumGetTextPP(spec.values[kKey]) : nullptr;
}

Datum
parents_of_argument(Datum *ids, int n)
{
	ParentList *parents = new_parent_list(n);
	for (int i = 0; i < n; i++)
		add_parent(parents, {DatumGetInt64(ids[i]), nullptr});
	return PointerGetDatum(parents);
}

/*
 * Make the job blocked. The time from now to its run_at becomes the delay that begins when the last
 * parent ends.
 */
static void
block(NewJob *job, const JobSpec &spec, int parents, TimestampTz now)
{
	if (is_given(spec, "run_at"))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("cannot specify both after and run_at"),
						errhint("Pass delay, which counts from the end of the last parent.")));
	TimestampTz run_at = DatumGetTimestampTz(job->values[kJobRunAt - 1]);
	job->set(kJobBlocked, Int64GetDatum(run_at - now));
	job->set(kJobParents, Int16GetDatum(static_cast<int16>(parents)));
	job->set(kJobRunAt, TimestampTzGetDatum(kBlockedRunAt));
}

/* Set the columns that are stored for the given attributes. */
static void
set_given(NewJob *job, const JobSpec &spec, TimestampTz now)
{
	for (int i = 0; i < kJobAttributes; i++)
	{
		if (!spec.given[i])
			continue;
		const JobAttribute &attribute = job_attributes[i];
		if (attribute.column == kBeforeJobColumns)
			continue;
		Datum value = spec.values[i];
		if (attribute.column_value != nullptr)
			value = attribute.column_value(spec, value, now);
		job->set(attribute.column, value);
	}
}

NewJob
job_of(int32 queue_id, const JobSpec &spec, TimestampTz now)
{
	NewJob job;
	job.set(kJobQueueId, Int32GetDatum(queue_id));
	job.set(kJobEnqueuedAt, TimestampTzGetDatum(now));
	job.set(kJobRunAt, TimestampTzGetDatum(now));
	job.set(kJobPriority, Int32GetDatum(0));
	job.set(kJobAttempts, Int32GetDatum(0));
	set_given(&job, spec, now);
	(void) on_parent_failure(spec);
	if (const ParentList *parents = parents_of(spec))
		block(&job, spec, parents->n, now);
	if (!job.nulls[kJobGroupKey - 1])
		job.set(kJobGroupId, group_id_of(job.values[kJobGroupKey - 1]));
	return job;
}

/* ---- unique keys ---- */

namespace {

struct Word
{
	std::string_view word;
	int value;
};

} // namespace

static constexpr Word until_words[] = {{"finished", 0}, {"claimed", 1}};
static constexpr Word conflict_words[] = {
	{"keep", static_cast<int>(OnConflict::kKeep)},
	{"replace", static_cast<int>(OnConflict::kReplace)},
	{"preserve_run_at", static_cast<int>(OnConflict::kPreserveRunAt)},
	{"append", static_cast<int>(OnConflict::kAppend)},
	{"error", static_cast<int>(OnConflict::kError)},
};

/* Return the value of the given word; the first word of the list is the default. Raises 22023. */
template <int n>
static int
value_of(const JobSpec &spec, int place, const Word (&words)[n])
{
	if (!spec.given[place])
		return words[0].value;
	const text *given = DatumGetTextPP(spec.values[place]);
	std::string_view word(VARDATA_ANY(given), VARSIZE_ANY_EXHDR(given));
	StringInfoData list;
	for (const Word &known : words)
		if (word == known.word)
			return known.value;
	initStringInfo(&list);
	for (const Word &known : words)
		appendStringInfo(&list, "%s%s", list.len == 0 ? "" : ", ", known.word.data());
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("invalid value for %s: \"%s\"", job_attributes[place].name,
						   text_to_cstring(given)),
					errhint("Available values: %s.", list.data)));
}

static constexpr Word failure_words[] = {
	{"cancel", static_cast<int>(OnFailure::kCancel)},
	{"run", static_cast<int>(OnFailure::kRun)},
	{"hold", static_cast<int>(OnFailure::kHold)},
};

OnFailure
on_parent_failure(const JobSpec &spec)
{
	constexpr int kFailure = place_of("on_parent_failure");
	auto how = static_cast<OnFailure>(value_of(spec, kFailure, failure_words));
	if (how != OnFailure::kCancel && !is_given(spec, "after"))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("on_parent_failure needs after"),
				 errhint("Pass the parents in after.")));
	return how;
}

static bool
is_array(Datum payload)
{
	const Jsonb *json = DatumGetJsonbP(payload);
	return JB_ROOT_IS_ARRAY(json) && !JB_ROOT_IS_SCALAR(json);
}

static void
refuse_without_key()
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("unique_until, unique_for and on_conflict need a unique_key"),
					errhint("Pass unique_key.")));
}

static void
refuse_append()
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("payload must be a JSON array for on_conflict => 'append'"),
					errhint("Pass the payload as an array, for example of one element.")));
}

KeyRules
key_rules(const JobSpec &spec, TimestampTz now)
{
	constexpr int kKey = place_of("unique_key");
	constexpr int kFor = place_of("unique_for");
	KeyRules rules{};
	constexpr int kUntil = place_of("unique_until");
	constexpr int kConflict = place_of("on_conflict");
	rules.until_claimed = value_of(spec, kUntil, until_words) != 0;
	rules.on_conflict = static_cast<OnConflict>(value_of(spec, kConflict, conflict_words));
	if (spec.given[kFor])
		rules.until = moment_after(now, spec.values[kFor], "unique_for");
	if (rules.until == now)
		rules.until = 0;
	if (spec.given[kKey])
		rules.key = DatumGetTextPP(checked_key(spec, spec.values[kKey], now));
	else if (rules.until_claimed || rules.on_conflict != OnConflict::kKeep || rules.until != 0)
		refuse_without_key();
	if (rules.on_conflict == OnConflict::kAppend && !is_array(spec.values[place_of("payload")]))
		refuse_append();
	return rules;
}

} // namespace pgq
