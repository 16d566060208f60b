/* Run code in such a way that its error does not end the transaction. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Run body in a subtransaction. If body raises an error, call handle() and return false; the
 * caller's transaction goes on. handle() runs before the rollback, since the rollback frees the
 * memory of the error.
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
		handle();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return survived;
}

} // namespace pgq
