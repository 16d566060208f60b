#include "catalog/own_object.h"

namespace pgq {

bool
is_member(Oid class_id, Oid oid)
{
	Oid extension = get_extension_oid("pgq_ext", true);
	return OidIsValid(extension) && OidIsValid(oid) &&
		   getExtensionOfObject(class_id, oid) == extension;
}

bool
is_own_table(Relation rel, const char *name)
{
	Oid table = RelationGetRelid(rel);
	if (rel->rd_rel->relispartition)
		table = get_partition_parent(table, true);
	Oid schema = get_namespace_oid("pgq_ext", true);
	return OidIsValid(schema) && table == get_relname_relid(name, schema) &&
		   is_member(RelationRelationId, table);
}

/*
 * Look up the function without checking the caller's rights: a role without USAGE on the schema
 * pgq_ext can also fire the extension's trigger on a table.
 */
Oid
own_function(const char *name, int n_arguments, const Oid *arguments)
{
	Oid schema = get_namespace_oid("pgq_ext", true);
	oidvector *types = buildoidvector(arguments, n_arguments);
	Oid function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
								   PointerGetDatum(types), ObjectIdGetDatum(schema));
	return is_member(ProcedureRelationId, function) ? function : InvalidOid;
}

} // namespace pgq
