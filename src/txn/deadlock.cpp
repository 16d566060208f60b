#include "txn/deadlock.h"

#include "engine/named_lock.h"

namespace pgq {

static constexpr int kMost = 64;

namespace {

/* The processes that have been looked at, each with the answer; kNobody while it is looked for, so that other circles end. */
struct Search
{
	int seen[kMost];
	int victim[kMost];
	int n;
};

} // namespace

static int waits_for_me(int procno, Search *search);

/* Who waits in memory goes on when any of them does. */
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

/* List the processes for which that one waits in memory: the claimer of a job, or the holders of a named lock. */
static int
blockers_in_memory(int procno, int *procnos)
{
	procnos[0] = awaited_claimer(procno);
	return procnos[0] != kNobody ? 1 : lock_blockers(procno, procnos, kMost);
}

/* Who waits for the server's locks goes on when none of them is in his way. */
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
 * Can that process go on only when this one has? Then the greatest number of those in the circle that wait in memory: each
 * of them finds the same circle, and one is enough to break it.
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
