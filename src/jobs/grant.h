/*
 * Rights on a queue (catalog/rights.h), given and taken away.
 */
#pragma once

#include "catalog/rights.h"

namespace pgq {

/* By Right. */
struct RightSet
{
	bool has[lengthof(right_specs)];
};

/* Error 22023. */
Right right_of_name(const char *name);

/*
 * The role, or ('public') everybody, has these, too. The first grant closes the queue, which is the owner's to do; any
 * other one needs admin there. Errors: 42704 no such queue or role, 42501.
 */
void grant_rights(const char *queue, const char *role, const RightSet &rights);

/* Not any more. Errors: also 55000 the queue is open, 0LP01 somebody else than we has granted that. */
void revoke_rights(const char *queue, const char *role, const RightSet &rights);

/* Of a queue that goes: it is as if there had never been any. */
void drop_rights(int32 queue_id);

} // namespace pgq
