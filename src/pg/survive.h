/* Run code in such a way that its error does not end the transaction. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Call handle(). If it raises an error, roll the subtransaction back before the error goes on to the
 * caller: the server would take a subtransaction that is still open for a savepoint of the user.
 */
template <typename Handle>
inline void
handle_in_subtransaction(Handle handle, MemoryContext context, ResourceOwner owner)
{
	PG_TRY();
	{
		handle();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		ErrorData *error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		ReThrowError(error);
	}
	PG_END_TRY();
}

/*
 * Run body in a subtransaction. If body raises an error, call handle() and return false; the
 * caller's transaction goes on. handle() runs before the rollback, since the rollback frees the
 * memory of the error. If handle() raises an error, for example by PG_RE_THROW(), the error goes on
 * to the caller.
 */
template <typename Body, typename Handle>
inline bool
survives_alone(Body body, Handle handle)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool survived = false;
	BeginInternalSubTransaction(nullptr);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		body();
		ReleaseCurrentSubTransaction();
		survived = true;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		handle_in_subtransaction(handle, context, owner);
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return survived;
}

} // namespace pgq
