#include "enqueue/job_json.h"

#include <initializer_list>
#include <string_view>

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

/*
 * Values of `element` for the options of a schedule, and for a callback of a batch without its queue
 * and payload. Elements of an array count from 1.
 */
static constexpr int kOptions = 0;
static constexpr int kCallback = -1;

static const char *
name_of(int element)
{
	if (element == kCallback)
		return "the callback";
	return element == kOptions ? "the object in options" : psprintf("element %d of jobs", element);
}

/* Return whether the attribute may be an option of a schedule, or a key of a callback of a batch. */
static bool
is_option(const JobAttribute &attribute)
{
	return !attribute.required && !attribute.only_enqueue;
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
	auto is_listed = [options](const JobAttribute &attribute) {
		return !options || is_option(attribute);
	};
	const JobAttribute *last = &job_attributes[kJobAttributes - 1];
	while (!is_listed(*last))
		last--;
	for (const JobAttribute &attribute : job_attributes)
		if (is_listed(attribute))
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
	bool is_element = element > kOptions;
	const char *keys = list_of_keys(!is_element, is_element ? " (required)" : "", " and ");
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s %s", name_of(element), what),
			 is_element				? errhint("Each element is an object with the keys %s.", keys)
			 : element == kCallback ? errhint("A callback needs the keys queue and payload. It may "
											  "also have %s, but no unique key.",
											  keys)
									: errhint("The keys of options may be %s.", keys)));
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

static int64
bigint_of(const JsonbValue &value, int element, const char *key)
{
	if (value.type != jbvNumeric)
		bad_job(element, psprintf("has a %s that is not a number", key));
	char *end;
	errno = 0;
	const char *text =
		DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value.val.numeric)));
	int64 number = strtoll(text, &end, 10);
	if (errno != 0 || *end != '\0')
		bad_job(element, psprintf("has a %s that is not an integer", key));
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
parents_of_json(const JsonbValue &value, int element)
{
	if (value.type != jbvBinary || !JsonContainerIsArray(value.val.binary.data))
		bad_job(element, "has an after that is not an array");
	JsonbContainer *array = value.val.binary.data;
	ParentList *parents = new_parent_list(static_cast<int>(JsonContainerSize(array)));
	for (uint32 i = 0; i < JsonContainerSize(array); i++)
	{
		JsonbValue *name = getIthJsonbValueFromContainer(array, i);
		if (name->type == jbvString)
			add_parent(parents,
					   {0, cstring_to_text_with_len(name->val.string.val, name->val.string.len)});
		else if (name->type == jbvNumeric)
			add_parent(parents, {bigint_of(*name, element, "job id in after"), nullptr});
		else
			bad_job(element, "has an after with a value that is neither a job id nor a ref");
		pfree(name);
	}
	return parents;
}

/* Convert the JSON value to the attribute's type. */
static Datum
datum_of(const JobAttribute &attribute, JsonbValue *value, int element)
{
	switch (attribute.type)
	{
		case INT4OID:
			return Int32GetDatum(integer_of(*value, element, attribute.name));
		case INT8OID:
			return Int64GetDatum(bigint_of(*value, element, attribute.name));
		case INT8ARRAYOID:
			return PointerGetDatum(parents_of_json(*value, element));
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
	if (attribute == nullptr || (element <= kOptions && !is_option(*attribute)))
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

/* ---- single keys ---- */

static constexpr std::string_view kUniqueKey = "unique_key";

/*
 * Read one key of element i. Returns false if the element does not have the key, or if its value is
 * null.
 */
static bool
find_key(Jsonb *jobs, uint32 i, std::string_view key, JsonbValue *value)
{
	JsonbValue *object = getIthJsonbValueFromContainer(&jobs->root, i);
	value->type = jbvNull;
	if (object->type == jbvBinary && JsonContainerIsObject(object->val.binary.data))
		(void) getKeyJsonValueFromContainer(object->val.binary.data, key.data(),
											static_cast<int>(key.size()), value);
	pfree(object);
	return value->type != jbvNull;
}

static bool
has_unique_key(Jsonb *jobs, uint32 i)
{
	JsonbValue value;
	return find_key(jobs, i, kUniqueKey, &value);
}

/* Return whether the object has one of the keys. The server keeps keys sorted by length. */
static bool
object_has_key(const JsonbContainer *object, std::initializer_list<std::string_view> keys)
{
	uint32 n = JsonContainerSize(object);
	const auto *names = reinterpret_cast<const char *>(&object->children[2 * n]);
	uint32 begin = 0;
	for (uint32 i = 0; i < n; i++)
	{
		uint32 end = begin;
		JBE_ADVANCE_OFFSET(end, object->children[i]);
		std::string_view name = {names + begin, end - begin};
		for (std::string_view key : keys)
			if (name.size() == key.size() && name == key)
				return true;
		if (name.size() > kUniqueKey.size())
			return false;
		begin = end;
	}
	return false;
}

/*
 * Return whether an element has one of the keys, none of which is longer than "unique_key". Reads the
 * binary format of the array itself: a search by the server's functions costs ten times as much for each
 * job.
 */
static bool
has_key(const Jsonb *jobs, std::initializer_list<std::string_view> keys)
{
	const JsonbContainer *array = &jobs->root;
	uint32 n = JsonContainerSize(array);
	const auto *values = reinterpret_cast<const char *>(&array->children[n]);
	uint32 offset = 0;
	for (uint32 i = 0; i < n; i++)
	{
		JEntry entry = array->children[i];
		const auto *object = reinterpret_cast<const JsonbContainer *>(values + INTALIGN(offset));
		if (JBE_ISCONTAINER(entry) && JsonContainerIsObject(object) && object_has_key(object, keys))
			return true;
		JBE_ADVANCE_OFFSET(offset, entry);
	}
	return false;
}

bool
has_names(const Jsonb *jobs)
{
	return has_key(jobs, {"after", "ref"});
}

JobSpec
names_of_array(Jsonb *jobs, uint32 i)
{
	JobSpec spec{};
	for (std::string_view key : {std::string_view("after"), std::string_view("on_parent_failure"),
								 std::string_view("ref"), kUniqueKey})
	{
		JsonbValue value;
		if (find_key(jobs, i, key, &value))
			read_key(
				&spec,
				{.type = jbvString,
				 .val = {.string = {static_cast<int>(key.size()), const_cast<char *>(key.data())}}},
				&value, static_cast<int>(i) + 1);
	}
	return spec;
}

int64
jobs_without_key(Jsonb *jobs)
{
	int64 n = JsonContainerSize(&jobs->root);
	if (!has_key(jobs, {kUniqueKey}))
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

/* Error context callback: name the callback. */
static void
say_callback(void *name)
{
	errcontext("callback %s", static_cast<const char *>(name));
}

static void
refuse_callback(const char *what, int sqlstate)
{
	ereport(ERROR, (errcode(sqlstate), errmsg("%s", what),
					errhint("For example: '{\"queue\": \"mail\", \"payload\": {\"n\": 1}}'.")));
}

/* Take the keys queue and payload out of the object, so that the rest are options. */
static Jsonb *
without(Jsonb *object, const char *key)
{
	return DatumGetJsonbP(
		DirectFunctionCall2(jsonb_delete, JsonbPGetDatum(object), CStringGetTextDatum(key)));
}

static JobSpec
read_callback(Jsonb *callback, char **queue)
{
	JsonbValue name{.type = jbvNull};
	JsonbValue payload{.type = jbvNull};
	Datum given;
	if (!JB_ROOT_IS_OBJECT(callback))
		refuse_callback("a callback must be a JSON object", ERRCODE_INVALID_PARAMETER_VALUE);
	if (getKeyJsonValueFromContainer(&callback->root, "queue", strlen("queue"), &name) == nullptr ||
		name.type != jbvString)
		refuse_callback("a callback must have a queue", ERRCODE_NULL_VALUE_NOT_ALLOWED);
	*queue = pnstrdup(name.val.string.val, name.val.string.len);
	if (getKeyJsonValueFromContainer(&callback->root, "payload", strlen("payload"), &payload) ==
		nullptr)
		refuse_callback("a callback must have a payload", ERRCODE_NULL_VALUE_NOT_ALLOWED);
	Jsonb *rest = without(without(callback, "queue"), "payload");
	JobSpec spec = read_object(&rest->root, kCallback);
	for (const char *key : {"unique_key", "unique_until", "unique_for", "on_conflict"})
		if (find_attribute(spec, key, &given))
			refuse_callback("a callback cannot have a unique key", ERRCODE_INVALID_PARAMETER_VALUE);
	set_attribute(&spec, "payload", PointerGetDatum(JsonbValueToJsonb(&payload)));
	return spec;
}

JobSpec
job_of_callback(const Jsonb *callback, const char *name, char **queue)
{
	ErrorContextCallback context = {error_context_stack, say_callback, const_cast<char *>(name)};
	error_context_stack = &context;
	JobSpec spec = read_callback(const_cast<Jsonb *>(callback), queue);
	error_context_stack = context.previous;
	return spec;
}

} // namespace pgq
