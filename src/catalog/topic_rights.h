/*
 * Rights on topics. A topic is open to all roles until a right was granted for a pattern that
 * matches it. Each such pattern has a row in pgq_ext.topic_pattern, and a view that selects only a
 * constant, pgq_ext.topic_rights_ID, whose privileges are the rights
 * (protocol: rights-are-privileges).
 */
#pragma once

#include "pg/pg.h"

#include <string_view>

namespace pgq {

enum class TopicRight : uint8
{
	kPublish,	/* publish to the topics that the pattern matches: INSERT on the view */
	kSubscribe, /* bind patterns that the pattern contains: SELECT on the view */
};

struct TopicRightSpec
{
	const char *name;
	AclMode privilege;
	const char *sql; /* SQL name of the privilege */
};
inline constexpr TopicRightSpec topic_right_specs[] = {
	{"publish", ACL_INSERT, "INSERT"},
	{"subscribe", ACL_SELECT, "SELECT"},
};

/*
 * Return a number that changes with each change of rights on topics, of roles and of memberships.
 * Processes invalidations first.
 */
uint64 count_right_changes();

/* Return whether the current role may publish to the topic. */
bool may_publish(std::string_view topic);

/* Raise 42501: the current role may not publish to the topic. */
[[noreturn]] void complain_no_publish(std::string_view topic);

/* Raise 42501 unless the current role may bind queues to the pattern. */
void require_subscribe(std::string_view pattern);

/* The name of the view of rights of a pattern. */
void name_of_topic_rights(int32 pattern_id, char *name);

} // namespace pgq
