/* Granting and revoking rights on topics (catalog/topic_rights.h). */
#pragma once

#include "catalog/topic_rights.h"

namespace pgq {

/* A set of rights, indexed by TopicRight. */
struct TopicRightSet
{
	bool has[lengthof(topic_right_specs)];
};

/* Return the right of that name. Raises 22023 if there is no such right. */
TopicRight topic_right_of_name(const char *name);

/*
 * Grant the rights on the pattern to the role, or to all roles ("public"). The first grant closes the topics
 * that the pattern matches. Raises 42501 unless the caller is a superuser or the owner of the tables; 42704 no
 * such role.
 */
void grant_topic_rights(std::string_view pattern, const char *role, const TopicRightSet &rights);

/*
 * Revoke the rights. In addition to the errors of grant_topic_rights(), raises 55000 (no right on the pattern
 * was ever granted) and 0LP01 (another role has granted the rights).
 */
void revoke_topic_rights(std::string_view pattern, const char *role, const TopicRightSet &rights);

} // namespace pgq
