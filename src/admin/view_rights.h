/*
 * The views whose privileges are rights: of a queue (pgq_ext.rights_ID) and of a pattern of topics
 * (pgq_ext.topic_rights_ID). The functions run within as_owner(), but grantee_of().
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

struct Grantee
{
	Oid oid;		 /* InvalidOid: PUBLIC */
	const char *sql; /* as written in a GRANT statement */
};

/* Return the role. "public" means all roles; no real role can have that name. Raises 42704. */
Grantee grantee_of(const char *role);

/* Revoke the privileges that ALTER DEFAULT PRIVILEGES has granted on a new view. */
void revoke_default_privileges(const char *view);

/*
 * Raise 0LP01 if the role still has one of the privileges because another role has granted it (SQL can
 * grant WITH GRANT OPTION). privileges: SQL names, with commas.
 */
void refuse_if_still_granted(const char *view, const char *role, const Grantee &grantee,
							 const char *privileges);

} // namespace pgq
