#include "engine/result_wait.h"

#include "engine/database.h"
#include "pg/scope.h"

namespace pgq {

/* Under results_lock. */
struct ResultWait
{
	const Database *database; /* NULL: the process does not wait */
	int64 job_id;
	JobEnd end;
};
static_assert(std::is_trivially_copyable_v<ResultWait> && std::is_standard_layout_v<ResultWait>);

Size
result_waits_size()
{
	return mul_size(process_count(), sizeof(ResultWait));
}

void
place_result_waits(void *memory)
{
	shared->waits_for_results = static_cast<ResultWait *>(memory);
	memset(memory, 0, result_waits_size());
}

static ResultWait *
mine()
{
	return &shared->waits_for_results[my_procno()];
}

static constinit bool waiting = false;

void
begin_result_wait(const Database *db, int64 job_id)
{
	with_lwlock(shared->results_lock, LW_EXCLUSIVE,
				[&] { *mine() = {.database = db, .job_id = job_id, .end = JobEnd::kUnknown}; });
	pg_atomic_fetch_add_u32(&shared->result_waits, 1);
	waiting = true;
}

JobEnd
end_result_wait()
{
	JobEnd end;
	with_lwlock(shared->results_lock, LW_EXCLUSIVE, [&] {
		end = mine()->end;
		*mine() = {};
	});
	pg_atomic_fetch_sub_u32(&shared->result_waits, 1);
	waiting = false;
	return end;
}

bool
waits_for_result()
{
	return waiting;
}

void
tell_waiting(const Database *db, int64 job_id, JobEnd end, Wakeups *wakeups)
{
	LWLockAcquire(shared->results_lock, LW_EXCLUSIVE);
	for (int i = 0; i < process_count(); i++)
	{
		ResultWait &wait = shared->waits_for_results[i];
		if (wait.database != db || wait.job_id != job_id)
			continue;
		wait.end = end;
		wakeups->add(i);
	}
	LWLockRelease(shared->results_lock);
}

} // namespace pgq
