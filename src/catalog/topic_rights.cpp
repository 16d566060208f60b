#include "catalog/topic_rights.h"

#include "catalog/owner_sql.h"
#include "catalog/rights.h"
#include "catalog/topic_table.h"
#include "core/topic_match.h"

#include <algorithm>

namespace pgq {

namespace {

struct GrantedPattern
{
	std::string_view pattern;
	int32 id;
};

} // namespace

/* What this backend remembers: the patterns for which a right was granted. */
static constinit MemoryContext memory_of_granted = nullptr;
static constinit GrantedPattern *granted = nullptr;
static constinit int n_granted = 0;
static constinit bool granted_valid = false;
static constinit bool granted_lasting = false; /* each change of the table sends an invalidation */
static constinit Oid table_of_granted = InvalidOid;
static constinit uint64 right_changes = 0;

/* ---- invalidation ---- */

static void
at_pattern_change(Datum, Oid relation)
{
	if (OidIsValid(relation) && relation != table_of_granted)
		return;
	granted_valid = false;
	right_changes++;
}

static void
at_privilege_change(Datum, CacheId, uint32)
{
	right_changes++;
}

static void
notice_right_changes()
{
	static constinit bool notices = false;
	if (notices)
		return;
	CacheRegisterRelcacheCallback(at_pattern_change, 0);
	for (auto cache : {RELNAMENSP, NAMESPACEOID, AUTHOID, AUTHMEMROLEMEM, DATABASEOID})
		CacheRegisterSyscacheCallback(cache, at_privilege_change, 0);
	notices = true;
}

uint64
count_right_changes()
{
	notice_right_changes();
	AcceptInvalidationMessages();
	if (!granted_lasting)
	{
		granted_valid = false;
		right_changes++;
	}
	return right_changes;
}

/* ---- patterns ---- */

static void
read_granted()
{
	if (memory_of_granted == nullptr)
		memory_of_granted =
			AllocSetContextCreate(TopMemoryContext, "pgq_ext topic rights", ALLOCSET_SMALL_SIZES);
	MemoryContextReset(memory_of_granted);
	n_granted = 0;
	table_of_granted = find_topic_table(TopicTable::kPattern);
	granted_lasting = lock_topic_table(TopicTable::kPattern, AccessShareLock);
	as_owner([&] {
		auto n = static_cast<int>(
			spi_execute("SELECT pattern_id, pattern FROM ONLY pgq_ext.topic_pattern", nullptr, 0));
		granted = static_cast<GrantedPattern *>(
			MemoryContextAllocHuge(memory_of_granted, (n + 1) * sizeof(GrantedPattern)));
		for (int i = 0; i < n; i++)
		{
			char *pattern = MemoryContextStrdup(memory_of_granted,
												TextDatumGetCString(spi_value(i, 2, TEXTOID)));
			std::string_view word;
			if (check_pattern(pattern, &word) == PatternFault::kNone)
				granted[n_granted++] = {pattern, DatumGetInt32(spi_value(i, 1, INT4OID))};
		}
	});
}

static void
refresh_granted()
{
	(void) count_right_changes();
	for (int tries = 0; !granted_valid && tries < 10; tries++)
	{
		granted_valid = true;
		PG_TRY();
		{
			read_granted();
		}
		PG_CATCH();
		{
			granted_valid = false;
			PG_RE_THROW();
		}
		PG_END_TRY();
	}
}

/* ---- privileges ---- */

void
name_of_topic_rights(int32 pattern_id, char *name)
{
	snprintf(name, NAMEDATALEN, "topic_rights_%d", pattern_id);
}

static bool
has_right(const GrantedPattern &pattern, TopicRight right)
{
	char name[NAMEDATALEN];
	name_of_topic_rights(pattern.id, name);
	return has_privilege_on_view(name, topic_right_specs[static_cast<int>(right)].privilege);
}

/*
 * Return whether the current role has the right: some granted pattern for which grants() is true gives it,
 * or there is no granted pattern for which closes() is true.
 */
template <typename Closes, typename Grants>
static bool
has_topic_right(TopicRight right, Closes closes, Grants grants)
{
	bool closed = false;
	refresh_granted();
	for (int i = 0; i < n_granted; i++)
	{
		if (!closes(granted[i].pattern))
			continue;
		closed = true;
		if (grants(granted[i].pattern) && has_right(granted[i], right))
			return true;
	}
	return !closed || is_owner();
}

bool
may_publish(std::string_view topic)
{
	return has_topic_right(
		TopicRight::kPublish,
		[&](std::string_view pattern) { return topic_matches(pattern, topic); },
		[](std::string_view) { return true; });
}

[[noreturn]] void
complain_no_publish(std::string_view topic)
{
	const char *role = GetUserNameFromId(GetUserId(), false);
	const char *quoted = quote_literal_cstr(pnstrdup(topic.data(), topic.size()));
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for topic \"%.*s\"", static_cast<int>(topic.size()),
					topic.data()),
			 errdetail("Role \"%s\" does not have the right \"publish\" on a pattern that matches "
					   "the topic.",
					   role),
			 errhint("The owner of the tables of pgq_ext can grant it: SELECT pgq_grant_topic(%s, "
					 "%s, '{publish}').",
					 quoted, quote_literal_cstr(role))));
}

void
require_subscribe(std::string_view pattern)
{
	if (has_topic_right(
			TopicRight::kSubscribe,
			[&](std::string_view other) { return patterns_overlap(other, pattern); },
			[&](std::string_view other) { return pattern_contains(other, pattern); }))
		return;
	const char *role = GetUserNameFromId(GetUserId(), false);
	const char *quoted = quote_literal_cstr(pnstrdup(pattern.data(), pattern.size()));
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for pattern \"%.*s\"", static_cast<int>(pattern.size()),
					pattern.data()),
			 errdetail("The pattern matches topics that are closed, and role \"%s\" does not have "
					   "the right \"subscribe\" on a pattern that contains this pattern.",
					   role),
			 errhint("The owner of the tables of pgq_ext can grant it: SELECT pgq_grant_topic(%s, "
					 "%s, '{subscribe}').",
					 quoted, quote_literal_cstr(role))));
}

} // namespace pgq
