#include "worker/call_error.h"

#include "engine/hold.h"
#include "pg/clip.h"

namespace pgq {

static const char *
text_of(const ErrorData *error)
{
	StringInfoData text;
	initStringInfo(&text);
	appendStringInfo(&text, "%s (SQLSTATE %s)", error->message != nullptr ? error->message : "",
					 unpack_sql_state(error->sqlerrcode));
	if (error->detail != nullptr)
		appendStringInfo(&text, "\nDETAIL:  %s", error->detail);
	if (error->context != nullptr)
		appendStringInfo(&text, "\nCONTEXT:  %s", error->context);
	return text.data;
}

CallError
take_error(MemoryContext memory, int64 timeout)
{
	CallError result{};
	MemoryContextSwitchTo(memory);
	ErrorData *error = CopyErrorData();
	FlushErrorState();
	result.interrupted = end_watching();
	AbortOutOfAnyTransaction();
	MemoryContextSwitchTo(memory);
	if (result.interrupted == Interrupted::kTimeout && error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		error->message = psprintf("the call took longer than its timeout (%lld ms)",
								  static_cast<long long>(timeout / 1000));
	result.sqlstate = error->sqlerrcode;
	result.message = error->message != nullptr ? error->message : "";
	result.text = text_of(error);
	return result;
}

bool
is_servers_fault(int sqlstate)
{
	int category = ERRCODE_TO_CATEGORY(sqlstate);
	return category == ERRCODE_TO_CATEGORY(ERRCODE_INSUFFICIENT_RESOURCES) ||
		   category == ERRCODE_TO_CATEGORY(ERRCODE_SYSTEM_ERROR) ||
		   sqlstate == ERRCODE_ADMIN_SHUTDOWN || sqlstate == ERRCODE_CRASH_SHUTDOWN ||
		   sqlstate == ERRCODE_CANNOT_CONNECT_NOW;
}

bool
is_conflict(const CallError &error)
{
	return !error.stale && (error.sqlstate == ERRCODE_T_R_SERIALIZATION_FAILURE ||
							error.sqlstate == ERRCODE_T_R_DEADLOCK_DETECTED);
}

void
note_claim_error(const QueueRef &ref)
{
	static constexpr int64 kQuiet = USECS_PER_MINUTE;
	static constinit int64 told = 0;
	int64 now = monotonic_now();
	MemoryContext context = CurrentMemoryContext;
	MemoryContextSwitchTo(TopMemoryContext);
	ErrorData *error = CopyErrorData();
	MemoryContextSwitchTo(context);
	if (told == 0 || now - told > kQuiet)
	{
		EmitErrorReport();
		told = now;
	}
	FlushErrorState();
	AbortOutOfAnyTransaction();
	(void) change_queue(ref, [&](QueueHold &hold) {
		(void) hold->handler.note_server_fault(0, now, wall_now());
		copy_clipped(hold->handler.last_error, error->message != nullptr ? error->message : "");
	});
	FreeErrorData(error);
}

} // namespace pgq
