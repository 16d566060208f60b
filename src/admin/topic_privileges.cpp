#include "admin/topic_privileges.h"

#include "admin/view_rights.h"
#include "catalog/owner_sql.h"
#include "catalog/rights.h"
#include "catalog/topic_table.h"

namespace pgq {

TopicRight
topic_right_of_name(const char *name)
{
	for (int i = 0; i < static_cast<int>(lengthof(topic_right_specs)); i++)
		if (strcmp(name, topic_right_specs[i].name) == 0)
			return static_cast<TopicRight>(i);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("right \"%s\" does not exist", name),
			 errhint("Available rights on topics: publish, subscribe.")));
}

static const char *
topic_privileges_of(const TopicRightSet &rights)
{
	StringInfoData list;
	initStringInfo(&list);
	for (int i = 0; i < static_cast<int>(lengthof(topic_right_specs)); i++)
		if (rights.has[i])
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "", topic_right_specs[i].sql);
	return list.data;
}

static void
require_owner(std::string_view pattern)
{
	if (!is_owner())
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("permission denied to change the rights on pattern \"%.*s\"",
							   static_cast<int>(pattern.size()), pattern.data()),
						errhint("Only superusers and the owner of the tables of pgq_ext may change "
								"rights on topics.")));
}

/*
 * Return the id of the pattern, 0 if it has no row. The table is locked until the transaction ends, so
 * that no two sessions change rights at once.
 */
static int32
lock_pattern(std::string_view pattern)
{
	const SpiArgument text[] = {
		{TEXTOID, CStringGetTextDatum(pnstrdup(pattern.data(), pattern.size())), false}};
	(void) lock_topic_table(TopicTable::kPattern, ShareRowExclusiveLock);
	if (spi_execute("SELECT pattern_id FROM ONLY pgq_ext.topic_pattern WHERE pattern "
					"OPERATOR(pg_catalog.=) $1",
					text) == 0)
		return 0;
	return DatumGetInt32(spi_value(0, 1, INT4OID));
}

/* Return whether a row or a relation has this id. */
static bool
is_pattern_id_used(int32 id)
{
	char view[NAMEDATALEN];
	const SpiArgument argument[] = {{INT4OID, Int32GetDatum(id), false}};
	name_of_topic_rights(id, view);
	return OidIsValid(get_relname_relid(view, get_namespace_oid("pgq_ext", false))) ||
		   spi_execute("SELECT FROM ONLY pgq_ext.topic_pattern WHERE pattern_id "
					   "OPERATOR(pg_catalog.=) $1",
					   argument) > 0;
}

/*
 * Return a new id. The sequence may be behind the rows, for example if logical replication has brought them.
 * A view may be left over from a row that SQL has deleted; the new pattern must not get its privileges.
 */
static int32
new_pattern_id()
{
	int32 id;
	do
	{
		CHECK_FOR_INTERRUPTS();
		(void) spi_execute("SELECT pg_catalog.nextval('pgq_ext.topic_pattern_id_seq')::integer",
						   nullptr, 0);
		id = DatumGetInt32(spi_value(0, 1, INT4OID));
	} while (is_pattern_id_used(id));
	return id;
}

/*
 * Write the name of the pattern's view of rights to `view`, which has room for NAMEDATALEN bytes. Create the
 * view if it is missing: the pattern is new, or its row came without the view, for example from a dump with
 * --data-only. Raises 55000 if another relation has that name.
 */
static void
have_view(int32 id, char *view)
{
	name_of_topic_rights(id, view);
	Openness openness = openness_by_view(view);
	if (openness == Openness::kForeign)
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("relation \"pgq_ext.%s\" is not the view that pgq_grant_topic creates for the "
					"rights on a pattern",
					view),
			 errdetail("The relation is not a view, or does not belong to the owner of the "
					   "tables of pgq_ext."),
			 errhint("Find out which role has made the relation. Then drop the relation, and "
					 "grant all rights on the pattern again with pgq_grant_topic.")));
	if (openness == Openness::kClosed)
		return;
	spi_run("CREATE VIEW pgq_ext.%s AS SELECT %d AS pattern_id", view, id);
	revoke_default_privileges(view);
}

/* Give the pattern a row. Returns its id. */
static int32
close_topics(std::string_view pattern)
{
	int32 id = new_pattern_id();
	const SpiArgument row[] = {
		{INT4OID, Int32GetDatum(id), false},
		{TEXTOID, CStringGetTextDatum(pnstrdup(pattern.data(), pattern.size())), false}};
	(void) spi_execute("INSERT INTO pgq_ext.topic_pattern (pattern_id, pattern) VALUES ($1, $2)",
					   row);
	ereport(NOTICE, (errmsg("topics of pattern \"%.*s\" are now closed to roles without rights on "
							"them",
							static_cast<int>(pattern.size()), pattern.data())));
	return id;
}

void
grant_topic_rights(std::string_view pattern, const char *role, const TopicRightSet &rights)
{
	require_owner(pattern);
	Grantee grantee = grantee_of(role);
	as_owner([&] {
		char view[NAMEDATALEN];
		int32 id = lock_pattern(pattern);
		have_view(id != 0 ? id : close_topics(pattern), view);
		spi_run("GRANT %s ON pgq_ext.%s TO %s", topic_privileges_of(rights), view, grantee.sql);
	});
	invalidate_topic_table(TopicTable::kPattern);
	CommandCounterIncrement();
}

void
revoke_topic_rights(std::string_view pattern, const char *role, const TopicRightSet &rights)
{
	require_owner(pattern);
	Grantee grantee = grantee_of(role);
	as_owner([&] {
		char view[NAMEDATALEN];
		int32 id = lock_pattern(pattern);
		if (id == 0)
			ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
							errmsg("pattern \"%.*s\" has no rights that could be revoked",
								   static_cast<int>(pattern.size()), pattern.data()),
							errdetail("No right on exactly this pattern has been granted.")));
		have_view(id, view);
		spi_run("REVOKE %s ON pgq_ext.%s FROM %s CASCADE", topic_privileges_of(rights), view,
				grantee.sql);
		refuse_if_still_granted(view, role, grantee, topic_privileges_of(rights));
	});
	CommandCounterIncrement();
}

} // namespace pgq
