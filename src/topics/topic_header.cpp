#include "topics/topic_header.h"

namespace pgq {

Datum
topic_object(std::string_view topic)
{
	auto string = [](std::string_view text) {
		return JsonbValue{
			.type = jbvString,
			.val = {.string = {static_cast<int>(text.size()), const_cast<char *>(text.data())}}};
	};
	JsonbValue key = string("topic");
	JsonbValue value = string(topic);
	return JsonbPGetDatum(object_of_one(&key, &value));
}

void
set_topic_header(JobSpec *spec, Datum object)
{
	Datum headers;
	if (!find_attribute(*spec, "headers", &headers))
		return set_attribute(spec, "headers", object);
	if (!JB_ROOT_IS_OBJECT(DatumGetJsonbP(headers)))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("headers of a published job must be a JSON object"),
						errhint("The header \"topic\" is added to this object.")));
	set_attribute(spec, "headers", DirectFunctionCall2(jsonb_concat, headers, object));
}

void
check_unpublished(const JobSpec &spec, TimestampTz now)
{
	(void) key_rules(spec, now);
	(void) job_of(0, spec, now);
}

} // namespace pgq
