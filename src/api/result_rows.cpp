#include "api/result_rows.h"

namespace pgq {

/*
 * Add a row of n values to a result whose row type is of a later version and has more attributes.
 * The additional attributes are set to NULL.
 */
void
ResultRows::put_longer(const Datum *values, const bool *nulls, int n)
{
	int natts = desc_->natts;
	if (natts < n)
		elog(ERROR, "a row of %d columns does not fit into one of %d", n, natts);
	auto *all = static_cast<Datum *>(palloc0(natts * sizeof(Datum)));
	auto *all_nulls = static_cast<bool *>(palloc(natts * sizeof(bool)));
	memset(all_nulls, true, natts * sizeof(bool));
	memcpy(all, values, n * sizeof(Datum));
	memcpy(all_nulls, nulls, n * sizeof(bool));
	tuplestore_putvalues(info_->setResult, desc_, all, all_nulls);
	pfree(all);
	pfree(all_nulls);
}

} // namespace pgq
