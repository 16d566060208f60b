/*
 * The maker of a schedule or of a batch: the role with whose rights its jobs are enqueued. A row
 * stores the OID of the role in the column maker, and its name in maker_name. The triggers of these
 * tables keep both together.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Set the column maker to the OID of the role maker_name, or to NULL if there is no such role: a
 * dump identifies the role by its name.
 */
HeapTuple with_maker(const TriggerData *data, HeapTuple row);

/*
 * Return whether the update changes the column maker or maker_name. A row that logical replication
 * writes has the OID of the role on the publisher, so for such a row the function usually returns
 * true.
 */
bool has_other_maker(TupleDesc desc, HeapTuple before, HeapTuple after);

} // namespace pgq
