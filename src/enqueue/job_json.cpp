#include "enqueue/job_json.h"

namespace pgq {

Jsonb *
array_of_jobs(Datum value)
{
	Jsonb *jobs = DatumGetJsonbP(value);
	if (!JB_ROOT_IS_ARRAY(jobs) || JB_ROOT_IS_SCALAR(jobs))
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("jobs must be a JSON array"),
			 errhint("For example: '[{\"payload\": {\"n\": 1}}, {\"payload\": {\"n\": 2}}]'.")));
	return jobs;
}

/* Value of `element` for the options of a schedule; elements of an array count from 1. */
static constexpr int kOptions = 0;

static const char *
name_of(int element)
{
	return element == kOptions ? "the object in options" : psprintf("element %d of jobs", element);
}

/*
 * Return the list of allowed keys for the hint of an error, for example "payload, priority and
 * delay".
 */
static const char *
list_of_keys(bool options, const char *if_required, const char *before_last)
{
	StringInfoData list;
	initStringInfo(&list);
	const JobAttribute *last = &job_attributes[kJobAttributes - 1];
	for (const JobAttribute &attribute : job_attributes)
		if (!(options && attribute.required))
			appendStringInfo(&list, "%s%s%s",
							 list.len == 0		  ? ""
							 : &attribute == last ? before_last
												  : ", ",
							 attribute.name, attribute.required ? if_required : "");
	return list.data;
}

[[noreturn]] static void
bad_job(int element, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s %s", name_of(element), what),
			 element == kOptions
				 ? errhint("The keys of options may be %s.", list_of_keys(true, "", " and "))
				 : errhint("Each element is an object with the keys %s.",
						   list_of_keys(false, " (required)", " and "))));
}

static const JobAttribute *
attribute_of_key(const JsonbValue &key)
{
	for (const JobAttribute &attribute : job_attributes)
		if (strlen(attribute.name) == static_cast<size_t>(key.val.string.len) &&
			memcmp(attribute.name, key.val.string.val, key.val.string.len) == 0)
			return &attribute;
	return nullptr;
}

/* ---- values ---- */

static char *
string_of(const JsonbValue &value, int element, const char *key)
{
	if (value.type != jbvString)
		bad_job(element, psprintf("has a %s that is not a string", key));
	return pnstrdup(value.val.string.val, value.val.string.len);
}

/* Return whether the conversion to int4 has changed the number: numeric_int4 rounds. */
static bool
numeric_int4_differs(Numeric exact, int32 number)
{
	return !DatumGetBool(DirectFunctionCall2(numeric_eq, NumericGetDatum(exact),
											 NumericGetDatum(int64_to_numeric(number))));
}

static int32
integer_of(const JsonbValue &value, int element, const char *key)
{
	if (value.type != jbvNumeric)
		bad_job(element, psprintf("has a %s that is not a number", key));
	int32 number;
	if (!numeric_to_int4(value.val.numeric, &number) ||
		numeric_int4_differs(value.val.numeric, number))
		bad_job(element, psprintf("has a %s that is not an integer", key));
	return number;
}

static Datum
parsed(PGFunction input, const char *text)
{
	return DirectFunctionCall3(input, CStringGetDatum(text), ObjectIdGetDatum(InvalidOid),
							   Int32GetDatum(-1));
}

/* Convert the JSON value to the attribute's type. */
static Datum
datum_of(const JobAttribute &attribute, JsonbValue *value, int element)
{
	switch (attribute.type)
	{
		case INT4OID:
			return Int32GetDatum(integer_of(*value, element, attribute.name));
		case INTERVALOID:
			return parsed(interval_in, string_of(*value, element, attribute.name));
		case TIMESTAMPTZOID:
			return parsed(timestamptz_in, string_of(*value, element, attribute.name));
		case TEXTOID:
			return CStringGetTextDatum(string_of(*value, element, attribute.name));
		default:
			Assert(attribute.type == JSONBOID);
			return PointerGetDatum(JsonbValueToJsonb(value));
	}
}

/* ---- elements ---- */

/*
 * Read one key of an element. A JSON null means the default, as NULL does in SQL; only a required
 * attribute (payload) can have null as its value.
 */
static void
read_key(JobSpec *spec, const JsonbValue &key, JsonbValue *value, int element)
{
	const JobAttribute *attribute = attribute_of_key(key);
	if (attribute == nullptr || (attribute->required && element == kOptions))
		bad_job(element, psprintf("has the unknown key \"%s\"",
								  pnstrdup(key.val.string.val, key.val.string.len)));
	if (value->type == jbvNull && !attribute->required)
		return;
	auto i = attribute - job_attributes;
	spec->values[i] = datum_of(*attribute, value, element);
	spec->given[i] = true;
}

static void
require_all(const JobSpec &spec, int element)
{
	for (int i = 0; i < kJobAttributes; i++)
		if (job_attributes[i].required && !spec.given[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("element %d of jobs has no %s", element, job_attributes[i].name),
					 errhint("The keys of an element are: %s.", list_of_keys(false, "", ", "))));
}

/* ---- jobs without a unique key ---- */

static constexpr char kUniqueKey[] = "unique_key";

static bool
has_unique_key(Jsonb *jobs, uint32 i)
{
	JsonbValue *object = getIthJsonbValueFromContainer(&jobs->root, i);
	JsonbValue value{.type = jbvNull};
	if (object->type == jbvBinary && JsonContainerIsObject(object->val.binary.data))
		(void) getKeyJsonValueFromContainer(object->val.binary.data, kUniqueKey, strlen(kUniqueKey),
											&value);
	pfree(object);
	return value.type != jbvNull;
}

int64
jobs_without_key(Jsonb *jobs)
{
	int64 n = JsonContainerSize(&jobs->root);
	/* Fast path: if the bytes "unique_key" do not occur in the value, no element has that key. */
	if (memmem(jobs, VARSIZE(jobs), kUniqueKey, strlen(kUniqueKey)) == nullptr)
		return n;
	for (uint32 i = 0; i < JsonContainerSize(&jobs->root); i++)
		n -= has_unique_key(jobs, i);
	return n;
}

static JobSpec
read_object(JsonbContainer *object, int element)
{
	JobSpec spec{};
	JsonbIterator *it = JsonbIteratorInit(object);
	JsonbValue key;
	JsonbValue value;
	(void) JsonbIteratorNext(&it, &value, true);
	while (JsonbIteratorNext(&it, &key, true) == WJB_KEY)
	{
		(void) JsonbIteratorNext(&it, &value, true);
		read_key(&spec, key, &value, element);
	}
	return spec;
}

JobSpec
job_of_array(Jsonb *jobs, uint32 i)
{
	int element = static_cast<int>(i) + 1;
	JsonbValue *object = getIthJsonbValueFromContainer(&jobs->root, i);
	if (object->type != jbvBinary || !JsonContainerIsObject(object->val.binary.data))
		bad_job(element, "is not an object");
	JobSpec spec = read_object(object->val.binary.data, element);
	require_all(spec, element);
	return spec;
}

JobSpec
job_of_options(Jsonb *options)
{
	if (!JB_ROOT_IS_OBJECT(options))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("options must be a JSON object"),
				 errhint("For example: '{\"priority\": 5, \"expires_in\": \"1 hour\"}'.")));
	return read_object(&options->root, kOptions);
}

} // namespace pgq
