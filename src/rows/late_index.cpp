#include "rows/late_index.h"

#include "catalog/tables.h"

namespace pgq {

Oid
late_index(Relation rel, LateIndex *index)
{
	uint64 reads = count_catalog_reads();
	if (index->found_at != reads)
	{
		index->oid = find_index(index->spec.name, RelationGetNamespace(rel), RelationGetRelid(rel),
								index->spec, index->unique);
		index->found_at = reads;
	}
	if (!OidIsValid(index->oid))
		complain_incomplete();
	return index->oid;
}

} // namespace pgq
