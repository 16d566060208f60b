#include "api/args.h"

#include "engine/shared.h"

namespace pgq {

void
start_verb(const char *name)
{
	require_preloaded();
	PreventCommandIfParallelMode(name);
	PreventCommandDuringRecovery(name);
}

void
start_write(const char *name)
{
	start_verb(name);
	PreventCommandIfReadOnly(name);
}

Datum
required(FunctionCallInfo fcinfo, int i, const char *name)
{
	if (PG_ARGISNULL(i))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", name),
				 errhint("Pass a value for the argument \"%s\".", name)));
	return PG_GETARG_DATUM(i);
}

char *
clipped(Datum value, int most)
{
	text *t = DatumGetTextPP(value);
	int length = pg_mbcliplen(VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t), most);
	return pnstrdup(VARDATA_ANY(t), length);
}

int
elements_of(Datum value, Oid type, const char *name, Datum **elements)
{
	ArrayType *array = DatumGetArrayTypeP(value);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
						errmsg("%s must be a one-dimensional array", name)));
	int16 length;
	bool by_value;
	char align;
	get_typlenbyvalalign(type, &length, &by_value, &align);
	bool *nulls;
	int n;
	deconstruct_array(array, type, length, by_value, align, elements, &nulls, &n);
	for (int i = 0; i < n; i++)
		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("%s must not contain nulls", name),
							errdetail("Element %d is null.", i + 1)));
	return n;
}

} // namespace pgq
