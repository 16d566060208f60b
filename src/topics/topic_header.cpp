#include "topics/topic_header.h"

namespace pgq {

Datum
topic_object(std::string_view topic)
{
	StringInfoData json;
	initStringInfo(&json);
	appendStringInfoString(&json, "{\"topic\": ");
	escape_json(&json, pnstrdup(topic.data(), topic.size()));
	appendStringInfoChar(&json, '}');
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
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

} // namespace pgq
