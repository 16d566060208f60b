/* Granting and revoking rights on a queue (catalog/rights.h). */
#pragma once

#include "catalog/rights.h"

namespace pgq {

/* A set of rights, indexed by Right. */
struct RightSet
{
	bool has[lengthof(right_specs)];
};

/* Return the right of that name. Raises 22023 if there is no such right. */
Right right_of_name(const char *name);

/*
 * Grant the rights to the role, or to all roles ("public"). The first grant closes the queue to all
 * other roles, and only the owner of the extension may make it. Later grants need the right admin
 * on the queue. Raises 42704 (no such queue or role), 42501.
 */
void grant_rights(const char *queue, const char *role, const RightSet &rights);

/*
 * Revoke the rights. In addition to the errors of grant_rights(), raises 55000 (no right on the
 * queue was granted, so the queue is open to all roles) and 0LP01 (another role has granted the
 * rights).
 */
void revoke_rights(const char *queue, const char *role, const RightSet &rights);

/* Drop the handler, the bindings and the rights of a queue. */
void drop_settings(int32 queue_id);

} // namespace pgq
