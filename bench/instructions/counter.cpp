// SQL functions that let the backend that calls them count its instructions, if it runs under callgrind.
extern "C" {
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
}
#include <valgrind/callgrind.h>

extern "C" {
PG_MODULE_MAGIC;

// From now on, slowly.
PG_FUNCTION_INFO_V1(count_from_now);
Datum
count_from_now(PG_FUNCTION_ARGS)
{
	CALLGRIND_START_INSTRUMENTATION;
	CALLGRIND_ZERO_STATS;
	PG_RETURN_VOID();
}

// Write what was counted to a file of callgrind's, under a name.
PG_FUNCTION_INFO_V1(write_count);
Datum
write_count(PG_FUNCTION_ARGS)
{
	CALLGRIND_DUMP_STATS_AT(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	CALLGRIND_STOP_INSTRUMENTATION;
	PG_RETURN_VOID();
}
}
