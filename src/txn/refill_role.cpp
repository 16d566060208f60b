#include "txn/refill_role.h"

#include "engine/hold.h"

namespace pgq {

struct RefillRole
{
	bool active;
	RefillKind kind;
	QueueRef ref;
};
static constinit RefillRole role = {};

void
begin_refill_role(const QueueRef &ref, RefillKind kind)
{
	Assert(!role.active);
	role = {.active = true, .kind = kind, .ref = ref};
}

void
end_refill_role()
{
	role.active = false;
}

void
abandon_refill()
{
	if (!role.active)
		return;
	role.active = false;
	(void) change_queue(role.ref, [](QueueHold &hold) {
		switch (role.kind)
		{
			case RefillKind::kWindow:
				return hold.schedule().abandon_window_refill();
			case RefillKind::kTimer:
				return hold.schedule().abandon_timer_refill();
			case RefillKind::kGroups:
				return hold.schedule().end_visits();
			case RefillKind::kLap:
				return hold.schedule().end_step();
		}
	});
}

} // namespace pgq
