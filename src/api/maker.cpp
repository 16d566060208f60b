#include "api/maker.h"

#include "api/trigger_data.h"

namespace pgq {

HeapTuple
with_maker(const TriggerData *data, HeapTuple row)
{
	TupleDesc desc = RelationGetDescr(data->tg_relation);
	int column = SPI_fnumber(desc, "maker");
	if (column <= 0 || SPI_gettypeid(desc, column) != OIDOID)
		return row;
	Datum name;
	Oid role = value_of(data, row, "maker_name", TEXTOID, &name)
				   ? get_role_oid(TextDatumGetCString(name), true)
				   : InvalidOid;
	Datum maker = ObjectIdGetDatum(role);
	bool is_null = !OidIsValid(role);
	return heap_modify_tuple_by_cols(row, desc, 1, &column, &maker, &is_null);
}

bool
has_other_maker(TupleDesc desc, HeapTuple before, HeapTuple after)
{
	for (const char *name : {"maker", "maker_name"})
	{
		int column = SPI_fnumber(desc, name);
		bool was_null;
		bool is_null;
		if (column <= 0)
			continue;
		Datum was = heap_getattr(before, column, desc, &was_null);
		Datum is = heap_getattr(after, column, desc, &is_null);
		auto *attribute = TupleDescAttr(desc, column - 1);
		if (was_null != is_null ||
			(!is_null && !datumIsEqual(was, is, attribute->attbyval, attribute->attlen)))
			return true;
	}
	return false;
}

} // namespace pgq
