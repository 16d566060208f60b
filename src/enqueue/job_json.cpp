#include "enqueue/job_json.h"

#include "enqueue/job_object.h"

#include <initializer_list>

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

static Origin
origin_of(ArrayOf kind, uint32 element)
{
	return {kind == ArrayOf::kPublished ? Origin::kPublished : Origin::kEnqueued, element};
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

bool
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
names_of_array(Jsonb *jobs, uint32 i, ArrayOf kind)
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
				&value, origin_of(kind, i));
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

JobSpec
job_of_array(Jsonb *jobs, uint32 i, ArrayOf kind)
{
	Origin origin = origin_of(kind, i);
	JsonbValue *object = getIthJsonbValueFromContainer(&jobs->root, i);
	if (object->type != jbvBinary || !JsonContainerIsObject(object->val.binary.data))
		bad_job(origin, "is not an object");
	JobSpec spec = read_object(object->val.binary.data, origin);
	for (int a = 0; a < kJobAttributes; a++)
		if (job_attributes[a].required && !spec.given[a])
			complain_without(origin, job_attributes[a].name);
	return spec;
}

/* ---- topics ---- */

bool
have_parents(const Jsonb *jobs)
{
	return has_key(jobs, {"after"});
}

bool
have_unique_keys(const Jsonb *jobs)
{
	return has_key(jobs, {kUniqueKey});
}

TopicOfElement
topic_of_array(Jsonb *jobs, uint32 i)
{
	Origin origin = origin_of(ArrayOf::kPublished, i);
	JsonbValue topic;
	JsonbValue must_route;
	JsonbValue *object = getIthJsonbValueFromContainer(&jobs->root, i);
	if (object->type != jbvBinary || !JsonContainerIsObject(object->val.binary.data))
		bad_job(origin, "is not an object");
	pfree(object);
	if (!find_key(jobs, i, kTopic, &topic))
		complain_without(origin, kTopic.data());
	if (topic.type != jbvString)
		bad_job(origin, "has a topic that is not a string");
	if (find_key(jobs, i, kMustRoute, &must_route) && must_route.type != jbvBool)
		bad_job(origin, "has a must_route that is not a boolean");
	return {{topic.val.string.val, static_cast<size_t>(topic.val.string.len)},
			must_route.type == jbvBool && must_route.val.boolean};
}

/* ---- options and callbacks ---- */

JobSpec
job_of_options(Jsonb *options)
{
	if (!JB_ROOT_IS_OBJECT(options))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("options must be a JSON object"),
				 errhint("For example: '{\"priority\": 5, \"expires_in\": \"1 hour\"}'.")));
	return read_object(&options->root, {Origin::kOptions, 0});
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
	JobSpec spec = read_object(&rest->root, {Origin::kCallback, 0});
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
