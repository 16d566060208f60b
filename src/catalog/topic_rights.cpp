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
	uint32 hash; /* hash of the view's name in the server's relation cache */
};

} // namespace

/* What this backend remembers: the patterns for which a right was granted. */
static constinit MemoryContext memory_of_granted = nullptr;
static constinit const GrantedPattern *granted = nullptr;
static constinit int n_granted = 0;
static constinit bool granted_lasting = true; /* each change of the table sends an invalidation */
static constinit Oid table_of_granted = InvalidOid; /* the table whose invalidations count */
static constinit uint32 hash_of_owned = 0;			/* the table whose owner has all rights */

/*
 * The number of invalidations of the patterns so far, and the number before `granted` was read:
 * `granted` is valid if the numbers are equal.
 */
static constinit uint64 pattern_changes = 1;
static constinit uint64 pattern_changes_read = 0;

/* As count_right_changes() returns it. */
static constinit uint64 right_changes = 0;

/* ---- invalidation ---- */

static void
at_pattern_change(Datum, Oid relation)
{
	if (OidIsValid(relation) && relation != table_of_granted)
		return;
	pattern_changes++;
	right_changes++;
}

static void
at_privilege_change(Datum, CacheId, uint32)
{
	right_changes++;
}

/*
 * A relation with that hash has changed; 0: any relation. If the relation is the view of no known
 * pattern, no right has changed: a new view comes with a new pattern.
 */
static void
at_view_change(Datum, CacheId, uint32 hash)
{
	bool counts = hash == 0 || hash == hash_of_owned || pattern_changes_read != pattern_changes;
	for (int i = 0; !counts && i < n_granted; i++)
		counts = granted[i].hash == hash;
	right_changes += counts ? 1 : 0;
}

static void
notice_right_changes()
{
	static constinit bool notices = false;
	if (notices)
		return;
	CacheRegisterRelcacheCallback(at_pattern_change, 0);
	CacheRegisterSyscacheCallback(RELNAMENSP, at_view_change, 0);
	for (auto cache : {NAMESPACEOID, AUTHOID, AUTHMEMROLEMEM, DATABASEOID})
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
		pattern_changes++;
		right_changes++;
	}
	return right_changes;
}

/* ---- patterns ---- */

static uint32
hash_of_relation(const char *name)
{
	return GetSysCacheHashValue2(RELNAMENSP, CStringGetDatum(name),
								 ObjectIdGetDatum(get_namespace_oid("pgq_ext", true)));
}

static uint32
hash_of_view(int32 pattern_id)
{
	char name[NAMEDATALEN];
	name_of_topic_rights(pattern_id, name);
	return hash_of_relation(name);
}

/*
 * Read the rows into the current memory context. Rows with a pattern that pgq_bind refuses are left
 * out.
 */
static const GrantedPattern *
read_rows_of_patterns(int *n)
{
	MemoryContext context = CurrentMemoryContext;
	GrantedPattern *read = nullptr;
	*n = 0;
	as_owner([&] {
		auto found = static_cast<int>(
			spi_execute("SELECT pattern_id, pattern FROM ONLY pgq_ext.topic_pattern", nullptr, 0));
		read = static_cast<GrantedPattern *>(
			MemoryContextAllocHuge(context, (found + 1) * sizeof(GrantedPattern)));
		for (int i = 0; i < found; i++)
		{
			std::string_view word;
			char *pattern =
				MemoryContextStrdup(context, TextDatumGetCString(spi_value(i, 2, TEXTOID)));
			int32 id = DatumGetInt32(spi_value(i, 1, INT4OID));
			if (check_pattern(pattern, &word) == PatternFault::kNone)
				read[(*n)++] = {pattern, id, hash_of_view(id)};
		}
	});
	return read;
}

/*
 * Read all patterns into new memory, and forget the old ones when that has succeeded. An error
 * leaves what was remembered before, which is still invalid.
 */
static void
read_granted()
{
	int n;
	uint64 before = pattern_changes;
	table_of_granted = find_topic_table(TopicTable::kPattern);
	hash_of_owned = hash_of_relation("queue");
	MemoryContext fresh =
		AllocSetContextCreate(CurrentMemoryContext, "pgq_ext topic rights", ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(fresh);
	bool lasting = lock_topic_table(TopicTable::kPattern, AccessShareLock);
	const GrantedPattern *read = read_rows_of_patterns(&n);
	MemoryContextSwitchTo(caller);

	MemoryContextSetParent(fresh, TopMemoryContext);
	if (memory_of_granted != nullptr)
		MemoryContextDelete(memory_of_granted);
	memory_of_granted = fresh;
	granted = read;
	n_granted = n;
	granted_lasting = lasting;
	pattern_changes_read = before;
}

static void
refresh_granted()
{
	(void) count_right_changes();
	for (int tries = 0; pattern_changes_read != pattern_changes && tries < 10; tries++)
		read_granted();
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
 * Return whether the current role has the right: some granted pattern for which grants() is true
 * gives it, or there is no granted pattern for which closes() is true.
 */
template <typename Closes, typename Grants>
static bool
has_topic_right(TopicRight right, Closes closes, Grants grants)
{
	bool closed = false;
	refresh_granted();
	for (int i = 0; i < n_granted; i++)
	{
		CHECK_FOR_INTERRUPTS();
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
