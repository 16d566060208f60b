#include "jobs/room.h"

#include "engine/copies.h"
#include "load/attach.h"
#include "load/depth.h"
#include "txn/effects.h"

namespace pgq {

static constexpr int kFullQueue = MAKE_SQLSTATE('P', 'Q', '0', '0', '2');

[[noreturn]] static void
complain_full(const QueueRef &ref, int64 jobs, const Fullness &fullness)
{
	char name[kQueueNameMax + 1] = "";
	(void) copy_name(ref, name);
	count_call(ref, Call::kRejected);
	ereport(ERROR,
			(errcode(kFullQueue), errmsg("queue \"%s\" is full", name),
			 errdetail("It has %lld jobs, max_depth is %lld, and room is wanted for %lld.",
					   static_cast<long long>(fullness.depth),
					   static_cast<long long>(fullness.max_depth), static_cast<long long>(jobs)),
			 errhint("Try again when more of its jobs have been claimed and ended, or raise "
					 "max_depth with pgq_alter_queue.")));
}

void
enter_queue(const QueueRef &ref, int64 jobs)
{
	Fullness fullness;
	for (bool resolved = false, recounted = false;;)
	{
		switch (take_room(ref, look_at_tables().queue, jobs, &fullness))
		{
			case Room::kTaken:
				return;
			case Room::kUncounted:
				count_depth(ref);
				break;
			case Room::kFull:
				if (fullness.may_be_less && !recounted)
				{
					count_depth(ref);
					recounted = true;
					break;
				}
				/* A prepared transaction that has ended may leave room. */
				if (resolved || !any_prepared())
					complain_full(ref, jobs, fullness);
				resolve_prepared();
				resolved = true;
		}
		CHECK_FOR_INTERRUPTS();
	}
}

void
leave_queue(const QueueRef &ref, int32 queue_id)
{
	QueueRef own = ref;
	if (queue_id == ref.queue_id || find_attached_queue(look_at_tables().database, queue_id, &own))
		note_rows(own, look_at_tables().queue, -1);
	else
		note_unfiled_job();
}

} // namespace pgq
