/*
 * Truncating a segment. README.md in this folder says in which order, and who may see what.
 */
#pragma once

#include "ring/expiry.h"

namespace pgq {

enum class Remains : uint8
{
	kNone,	 /* and writers are locked out until the transaction ends */
	kSome,	 /* there is a row that lives, or may live */
	kUnknown /* somebody has a lock, or waits for one */
};

/*
 * Look at all that is left in the segment. *changed_at: the end of the WAL before that, if a
 * page was changed after the one given. *newest: the newest transaction that has written or
 * deleted any of it. Rows whose time is over by expiry, if given, are as good as dead.
 */
Remains inspect_segment(const Segment &segment, const Expiry *expiry, XLogRecPtr *changed_at,
						TransactionId *newest);

/* Does any snapshot take a transaction of that age for one that may be running still? */
bool is_seen_by_all(const Segment &segment, TransactionId xid);

enum class TruncatedBy : uint8
{
	kNothing, /* somebody has a lock, or waits for one */
	kCutting, /* the files that there are */
	kNewFiles /* which leaves dead rows in pg_class */
};

/* After inspect_segment() has found none, or none but those whose time is over. */
TruncatedBy truncate_segment(const Segment &segment, bool may_have_rows);

} // namespace pgq
