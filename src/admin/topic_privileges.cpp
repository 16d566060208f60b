#include "admin/topic_privileges.h"

#include "admin/view_rights.h"
#include "catalog/owner_sql.h"
#include "catalog/rights.h"

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
	spi_run("LOCK TABLE pgq_ext.topic_pattern IN SHARE ROW EXCLUSIVE MODE");
	if (spi_execute("SELECT pattern_id FROM pgq_ext.topic_pattern WHERE pattern "
					"OPERATOR(pg_catalog.=) $1",
					text) == 0)
		return 0;
	return DatumGetInt32(spi_value(0, 1, INT4OID));
}

/* Give the pattern a row and a view. Returns its id. */
static int32
close_topics(std::string_view pattern)
{
	char view[NAMEDATALEN];
	const SpiArgument text[] = {
		{TEXTOID, CStringGetTextDatum(pnstrdup(pattern.data(), pattern.size())), false}};
	(void) spi_execute(
		"INSERT INTO pgq_ext.topic_pattern (pattern) VALUES ($1) RETURNING pattern_id", text);
	int32 id = DatumGetInt32(spi_value(0, 1, INT4OID));
	name_of_topic_rights(id, view);
	spi_run("CREATE VIEW pgq_ext.%s AS SELECT %d AS pattern_id", view, id);
	revoke_default_privileges(view);
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
		name_of_topic_rights(id != 0 ? id : close_topics(pattern), view);
		spi_run("GRANT %s ON pgq_ext.%s TO %s", topic_privileges_of(rights), view, grantee.sql);
	});
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
		name_of_topic_rights(id, view);
		spi_run("REVOKE %s ON pgq_ext.%s FROM %s CASCADE", topic_privileges_of(rights), view,
				grantee.sql);
		refuse_if_still_granted(view, role, grantee, topic_privileges_of(rights));
	});
	CommandCounterIncrement();
}

} // namespace pgq
