/* Comparison of virtual transaction ids. */
#pragma once

#include "pg/version.h"

namespace pgq {

/* Return whether the virtual id is that of this transaction. */
inline bool
is_me(const VirtualTransactionId &vxid)
{
	return VirtualTransactionIdEquals(vxid, my_virtual_xid());
}

} // namespace pgq
