#include "enqueue/job_object.h"

namespace pgq {

static const char *
name_of(const Origin &origin)
{
	if (origin.kind == Origin::kCallback)
		return "the callback";
	return origin.is_element() ? psprintf("element %u of jobs", origin.element + 1)
							   : "the object in options";
}

/* Return whether an object of this origin may have the attribute as a key. */
static bool
is_key(const Origin &origin, const JobAttribute &attribute)
{
	if (origin.kind == Origin::kPublished)
		return attribute.name != std::string_view("ref");
	return origin.is_element() || (!attribute.required && !attribute.only_enqueue);
}

/*
 * Return the list of allowed keys for the hint of an error, for example "payload, priority and
 * delay".
 */
static const char *
list_of_keys(const Origin &origin, const char *if_required, const char *before_last)
{
	StringInfoData list;
	bool published = origin.kind == Origin::kPublished;
	initStringInfo(&list);
	if (published)
		appendStringInfo(&list, "%s%s", kTopic.data(), if_required);
	const JobAttribute *last = &job_attributes[kJobAttributes - 1];
	while (!is_key(origin, *last))
		last--;
	for (const JobAttribute &attribute : job_attributes)
		if (is_key(origin, attribute))
			appendStringInfo(&list, "%s%s%s",
							 list.len == 0						? ""
							 : &attribute == last && !published ? before_last
																: ", ",
							 attribute.name, attribute.required ? if_required : "");
	if (published)
		appendStringInfo(&list, "%s%s", before_last, kMustRoute.data());
	return list.data;
}

void
bad_job(const Origin &origin, const char *what)
{
	bool is_element = origin.is_element();
	const char *keys = list_of_keys(origin, is_element ? " (required)" : "", " and ");
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s %s", name_of(origin), what),
			 is_element ? errhint("Each element is an object with the keys %s.", keys)
			 : origin.kind == Origin::kCallback
				 ? errhint("A callback needs the keys queue and payload. It may "
						   "also have %s, but no unique key.",
						   keys)
				 : errhint("The keys of options may be %s.", keys)));
}

/*
 * Raise 0A000: an element of pgq_publish_many can become a job in each of several queues, or none, so a
 * ref would not name one job.
 */
[[noreturn]] static void
refuse_ref(const Origin &origin, const char *what)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
		 errmsg("%s %s, which pgq_publish_many does not support", name_of(origin), what),
		 errdetail("A published element can become several jobs, so a ref would not name one job."),
		 errhint("Publish the parents by an earlier call, and pass the ids of their jobs in after. "
				 "Or call pgq_enqueue_many for each queue.")));
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
string_of(const JsonbValue &value, const Origin &origin, const char *key)
{
	if (value.type != jbvString)
		bad_job(origin, psprintf("has a %s that is not a string", key));
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
integer_of(const JsonbValue &value, const Origin &origin, const char *key)
{
	if (value.type != jbvNumeric)
		bad_job(origin, psprintf("has a %s that is not a number", key));
	int32 number;
	if (!numeric_to_int4(value.val.numeric, &number) ||
		numeric_int4_differs(value.val.numeric, number))
		bad_job(origin, psprintf("has a %s that is not an integer", key));
	return number;
}

static int64
bigint_of(const JsonbValue &value, const Origin &origin, const char *key)
{
	if (value.type != jbvNumeric)
		bad_job(origin, psprintf("has a %s that is not a number", key));
	char *end;
	errno = 0;
	const char *text =
		DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value.val.numeric)));
	int64 number = strtoll(text, &end, 10);
	if (errno != 0 || *end != '\0')
		bad_job(origin, psprintf("has a %s that is not an integer", key));
	return number;
}

static Datum
parsed(PGFunction input, const char *text)
{
	return DirectFunctionCall3(input, CStringGetDatum(text), ObjectIdGetDatum(InvalidOid),
							   Int32GetDatum(-1));
}

/* Read the value of `after`: an array of ids and of names of other elements. */
static ParentList *
parents_of_json(const JsonbValue &value, const Origin &origin)
{
	if (value.type != jbvBinary || !JsonContainerIsArray(value.val.binary.data))
		bad_job(origin, "has an after that is not an array");
	JsonbContainer *array = value.val.binary.data;
	ParentList *parents = new_parent_list(static_cast<int>(JsonContainerSize(array)));
	for (uint32 i = 0; i < JsonContainerSize(array); i++)
	{
		JsonbValue *name = getIthJsonbValueFromContainer(array, i);
		if (name->type == jbvString && origin.kind == Origin::kPublished)
			refuse_ref(origin, "names a ref in after");
		if (name->type == jbvString)
			add_parent(parents,
					   {0, cstring_to_text_with_len(name->val.string.val, name->val.string.len)});
		else if (name->type == jbvNumeric)
			add_parent(parents, {bigint_of(*name, origin, "job id in after"), nullptr});
		else
			bad_job(origin, "has an after with a value that is neither a job id nor a ref");
		pfree(name);
	}
	return parents;
}

/* Convert the JSON value to the attribute's type. */
static Datum
datum_of(const JobAttribute &attribute, JsonbValue *value, const Origin &origin)
{
	switch (attribute.type)
	{
		case INT4OID:
			return Int32GetDatum(integer_of(*value, origin, attribute.name));
		case INT8OID:
			return Int64GetDatum(bigint_of(*value, origin, attribute.name));
		case INT8ARRAYOID:
			return PointerGetDatum(parents_of_json(*value, origin));
		case INTERVALOID:
			return parsed(interval_in, string_of(*value, origin, attribute.name));
		case TIMESTAMPTZOID:
			return parsed(timestamptz_in, string_of(*value, origin, attribute.name));
		case TEXTOID:
			return CStringGetTextDatum(string_of(*value, origin, attribute.name));
		default:
			Assert(attribute.type == JSONBOID);
			return PointerGetDatum(JsonbValueToJsonb(value));
	}
}

/* ---- elements ---- */

/* Return whether the key is one that pgq_publish_many reads itself, by topic_of_array(). */
static bool
is_key_of_publish(const JsonbValue &key, const Origin &origin)
{
	std::string_view name = {key.val.string.val, static_cast<size_t>(key.val.string.len)};
	return origin.kind == Origin::kPublished && (name == kTopic || name == kMustRoute);
}

void
read_key(JobSpec *spec, const JsonbValue &key, JsonbValue *value, const Origin &origin)
{
	const JobAttribute *attribute = attribute_of_key(key);
	if (is_key_of_publish(key, origin))
		return;
	bool is_ref = attribute != nullptr && origin.is_element() && !is_key(origin, *attribute);
	if (is_ref && value->type != jbvNull)
		refuse_ref(origin, "has a ref");
	if (attribute == nullptr || (!is_ref && !is_key(origin, *attribute)))
		bad_job(origin, psprintf("has the unknown key \"%s\"",
								 pnstrdup(key.val.string.val, key.val.string.len)));
	if (value->type == jbvNull && !attribute->required)
		return;
	auto i = attribute - job_attributes;
	spec->values[i] = datum_of(*attribute, value, origin);
	spec->given[i] = true;
}

void
complain_without(const Origin &origin, const char *key)
{
	ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					errmsg("element %u of jobs has no %s", origin.element + 1, key),
					errhint("The keys of an element are: %s.", list_of_keys(origin, "", ", "))));
}

JobSpec
read_object(JsonbContainer *object, const Origin &origin)
{
	JobSpec spec{};
	JsonbIterator *it = JsonbIteratorInit(object);
	JsonbValue key;
	JsonbValue value;
	(void) JsonbIteratorNext(&it, &value, true);
	while (JsonbIteratorNext(&it, &key, true) == WJB_KEY)
	{
		(void) JsonbIteratorNext(&it, &value, true);
		read_key(&spec, key, &value, origin);
	}
	return spec;
}

} // namespace pgq
