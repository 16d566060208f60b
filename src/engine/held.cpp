#include "engine/held.h"
#include "pg/virtual_xid.h"

namespace pgq {

void
begin_hold(Lease *lease)
{
	Assert(lease->state == LeaseState::kClaiming && lease->pins == 1 && !lease->slot);
	lease->state = LeaseState::kHeld;
	lease->pins = 0;
	lease->pid = 0;
	SetInvalidVirtualTransactionId(lease->claimer);
	lease->holder[0] = my_virtual_xid();
	lease->holders = 1;
	lease->wanted = 0;
}

bool
add_holder(Lease *lease)
{
	Assert(lease->state == LeaseState::kHeld);
	if (lease->holders == kHoldersMax)
		return false;
	lease->holder[lease->holders++] = my_virtual_xid();
	return true;
}

bool
is_holder(const Lease *lease, const VirtualTransactionId &vxid)
{
	for (int i = 0; lease->state == LeaseState::kHeld && i < lease->holders; i++)
		if (VirtualTransactionIdEquals(lease->holder[i], vxid))
			return true;
	return false;
}

const VirtualTransactionId *
other_holder(const Lease *lease)
{
	for (int i = 0; lease->state == LeaseState::kHeld && i < lease->holders; i++)
		if (!is_me(lease->holder[i]))
			return &lease->holder[i];
	return nullptr;
}

bool
drop_holder(Lease *lease, const VirtualTransactionId &vxid)
{
	Assert(is_holder(lease, vxid));
	int i = 0;
	while (!VirtualTransactionIdEquals(lease->holder[i], vxid))
		i++;
	lease->holders--;
	lease->holder[i] = lease->holder[lease->holders];
	return lease->holders == 0;
}

} // namespace pgq
