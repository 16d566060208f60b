#include "api/job_arguments.h"

#include "api/args.h"

namespace pgq {

static Datum
parents_of_array(Datum array, const char *name)
{
	Datum *ids;
	int n = elements_of(array, INT8OID, name, &ids);
	return parents_of_argument(ids, n);
}

JobSpec
job_of_arguments(FunctionCallInfo fcinfo, int first, int n)
{
	JobSpec spec{};
	for (int i = 0; i < n && first + i < PG_NARGS(); i++)
	{
		const JobAttribute &attribute = job_attributes[i];
		int argument = first + i;
		if (attribute.required)
			(void) required(fcinfo, argument, attribute.name);
		if (!given(fcinfo, argument))
			continue;
		spec.values[i] = attribute.type == INT8ARRAYOID
							 ? parents_of_array(PG_GETARG_DATUM(argument), attribute.name)
							 : PG_GETARG_DATUM(argument);
		spec.given[i] = true;
	}
	return spec;
}

} // namespace pgq
