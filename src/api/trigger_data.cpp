#include "api/trigger_data.h"

#include "catalog/own_trigger.h"

namespace pgq {

const TriggerData *
trigger_data(FunctionCallInfo fcinfo, const char *name)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("pgq_ext.%s() must be called as a trigger", name)));
	auto *data = reinterpret_cast<const TriggerData *>(fcinfo->context);
	/* Check only once for each statement: fn_extra lives for one trigger during one statement. */
	if (fcinfo->flinfo->fn_extra == data->tg_trigger)
		return data;
	if (!is_own_trigger(data->tg_relation, *data->tg_trigger))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("pgq_ext.%s() must be called by the triggers of pgq_ext", name),
				 errdetail("Trigger \"%s\" of table \"%s\" is not a trigger of pgq_ext.",
						   data->tg_trigger->tgname, RelationGetRelationName(data->tg_relation)),
				 errhint("Drop that trigger.")));
	fcinfo->flinfo->fn_extra = data->tg_trigger;
	return data;
}

HeapTuple
row_of(const TriggerData *data)
{
	return TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple;
}

bool
value_of(const TriggerData *data, HeapTuple tuple, const char *column, Oid type, Datum *value)
{
	TupleDesc desc = RelationGetDescr(data->tg_relation);
	int number = SPI_fnumber(desc, column);
	bool is_null = true;
	*value = 0;
	if (number > 0 && SPI_gettypeid(desc, number) == type)
		*value = heap_getattr(tuple, number, desc, &is_null);
	return !is_null;
}

} // namespace pgq
