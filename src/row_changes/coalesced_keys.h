/* The unique keys of the jobs of a coalescing watch. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * The keys of one statement. All memory is of the context that is current when the object is made.
 */
class CoalescedKeys
{
public:
	CoalescedKeys() : memory_(CurrentMemoryContext) {}

	/*
	 * Return the unique key of a job with this payload, in the current context; NULL if an earlier
	 * call has returned this key. The key is made of the payload, so equal keys mean equal
	 * payloads.
	 */
	text *add(Jsonb *payload);

private:
	bool add_bytes(const char *bytes, int length);

	MemoryContext memory_;
	HTAB *known_ = nullptr;
};

} // namespace pgq
