#include "worker/rotation.h"

#include "ring/rotation.h"
#include "worker/duty.h"
#include "worker/worker.h"

namespace pgq {

int64
rotate_segments(Database *database)
{
	static constinit Rotation of_this_process = {};
	Rotation *rotation = &of_this_process;
	int64 now = monotonic_now();
	if (begin_look(rotation, now))
		worker_transaction([&] {
			if (lock_and_serve(AccessShareLock))
				look_at_rings(rotation, database, now);
		});

	int number = segment_in_turn(*rotation, now);
	if (number >= 0)
	{
		bool served = false;
		bool survived = true;
		worker_transaction([&] {
			served = lock_and_serve(AccessShareLock);
			if (served)
				survived = survives([&] { take_step(rotation, database, number); });
		});
		end_step(rotation, database, number, served, !survived);
	}
	if (is_failing(*rotation))
		keep_failing();
	return next_step(*rotation);
}

} // namespace pgq
