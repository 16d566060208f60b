/*
 * Truncating a segment. README.md in this folder describes the order of the steps and what other
 * sessions see.
 */
#pragma once

#include "ring/expiry.h"

namespace pgq {

enum class Remains : uint8
{
	kNone,	 /* there is no live row; writers are locked out until the transaction ends */
	kSome,	 /* there is a live row, or a row that may be live */
	kUnknown /* another session has a lock on the segment, or waits for a lock */
};

/*
 * Search the whole segment for live rows. expiry: if set, rows past their time count as dead.
 * *changed_at: the WAL position of an earlier search, or 0; if a page was changed after that
 * position, set to the end of WAL at the start of this search. *newest: set to the newest
 * transaction that has written or deleted a row.
 */
Remains inspect_segment(const Segment &segment, const Expiry *expiry, XLogRecPtr *changed_at,
						TransactionId *newest);

/*
 * Return whether every snapshot sees the transaction as ended. If so, no snapshot can see a row
 * that the transaction has deleted.
 */
bool is_seen_by_all(const Segment &segment, TransactionId xid);

enum class TruncatedBy : uint8
{
	kNothing, /* another session has a lock on the segment, or waits for a lock */
	kCutting, /* the files were cut in place */
	kNewFiles /* new files, which leave dead rows in pg_class */
};

/*
 * Truncate the segment after inspect_segment() has returned kNone. may_have_rows: the inspection
 * has counted rows that are past their time as dead, so such rows may be left. Then the segment gets
 * new files, and is not cut in place.
 */
TruncatedBy truncate_segment(const Segment &segment, bool may_have_rows);

} // namespace pgq
