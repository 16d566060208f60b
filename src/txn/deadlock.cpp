#include "txn/deadlock.h"

#include "engine/named/named_lock.h"

namespace pgq {

static constexpr int kMost = 64;

namespace {
/*
 * The processes visited so far, each with its result of waits_for_me(). While the blockers of a
 * process are being searched, the result of that process is kNobody. So the search ends at circles
 * that do not contain this process itself.
 */
struct Search
{
	int seen[kMost];
	int victim[kMost];
	int n;
};

} // namespace

static int waits_for_me(int procno, Search *search);

/*
 * Return the result of waits_for_me() for a process that waits in memory. Such a process continues
 * as soon as one of its blockers does, so it waits for this process only if all of its blockers do.
 */
static int
all_wait_for_me(const int *procnos, int n, Search *search)
{
	int last = kNobody;
	for (int i = 0; i < n; i++)
	{
		int victim = waits_for_me(procnos[i], search);
		if (victim == kNobody)
			return kNobody;
		last = Max(last, victim);
	}
	return last;
}

/*
 * List the processes for which `procno` waits in memory: the claimer of a job, or the holders of a
 * named lock.
 */
static int
blockers_in_memory(int procno, int *procnos)
{
	procnos[0] = awaited_claimer(procno);
	return procnos[0] != kNobody ? 1 : lock_blockers(procno, procnos, kMost);
}

/*
 * Return the result of waits_for_me() for a process that waits for a lock of the server. Such a
 * process continues only when no blocker is left, so it waits for this process if any of its
 * blockers does.
 */
static int
any_waits_for_me(int pid, Search *search)
{
	Datum *pids;
	int n;
	ArrayType *blocking =
		DatumGetArrayTypeP(DirectFunctionCall1(pg_blocking_pids, Int32GetDatum(pid)));
	deconstruct_array(blocking, INT4OID, sizeof(int32), true, TYPALIGN_INT, &pids, nullptr, &n);
	for (int i = 0; i < n; i++)
	{
		PGPROC *process = BackendPidGetProc(DatumGetInt32(pids[i]));
		int victim = process == nullptr
						 ? kNobody
						 : waits_for_me(static_cast<int>(process - ProcGlobal->allProcs), search);
		if (victim != kNobody)
			return victim;
	}
	return kNobody;
}

static int
look_at_blockers(int procno, Search *search)
{
	int procnos[kMost];
	int n = blockers_in_memory(procno, procnos);
	if (n > 0)
	{
		int victim = all_wait_for_me(procnos, n, search);
		return victim == kNobody ? kNobody : Max(victim, procno);
	}
	int pid = ProcGlobal->allProcs[procno].pid;
	return pid == 0 ? kNobody : any_waits_for_me(pid, search);
}

/*
 * Return kNobody if process `procno` can go on without this process. Otherwise return the victim:
 * the greatest process number among the processes of the circle that wait in memory. Each of these
 * processes finds the same circle, and the victim alone raises the error.
 */
static int
waits_for_me(int procno, Search *search)
{
	if (procno == my_procno())
		return procno;
	for (int i = 0; i < search->n; i++)
		if (search->seen[i] == procno)
			return search->victim[i];
	if (search->n == kMost)
		return kNobody;
	int me = search->n++;
	search->seen[me] = procno;
	search->victim[me] = kNobody;
	return search->victim[me] = look_at_blockers(procno, search);
}

static bool
is_victim()
{
	Search search{};
	int procnos[kMost];
	int n = blockers_in_memory(my_procno(), procnos);
	return n > 0 && all_wait_for_me(procnos, n, &search) == my_procno();
}

void
DeadlockWatch::look()
{
	int64 now = monotonic_now();
	if (next_ == 0)
		next_ = now + DeadlockTimeout * INT64CONST(1000);
	if (now < next_)
		return;
	next_ = now + DeadlockTimeout * INT64CONST(1000);
	bool again = is_victim();
	if (again && found_)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_DEADLOCK_DETECTED), errmsg("deadlock detected"),
				 errdetail("This session waits for a session that waits for this transaction."),
				 errhint("Take locks in the same order everywhere.")));
	found_ = again;
}

} // namespace pgq
