#include "engine/named/lock_line.h"

namespace pgq {

namespace {
/*
 * The place of a process in the line of a named lock. Protected by the LWLock for all named locks
 * and their lines ("locks lock" in engine/shared.h).
 */
struct LockWaiter
{
	LockKey key;
	int next; /* procno of the next waiter in the line of its hash, or kNobody */
	bool in_line;
	int32 slots; /* number of slots that this waiter has given for the lock */
	/* Monotonic time at which the process was woken to look at the lock; 0: not woken. */
	int64 woken;
	uint32 session; /* number of ended sessions that had this procno; see session_of() */
	/*
	 * Procno + 1 of the process whose claim in progress this process waits for; 0: none. Written
	 * and read without a lock.
	 */
	Relaxed<int> claimer;
};
static_assert(std::is_trivially_copyable_v<LockWaiter> && std::is_standard_layout_v<LockWaiter>);

} // namespace

inline constexpr int kLines = 256;

/*
 * The lines of all named locks. Locks whose hashes are equal modulo kLines share a line. Protected
 * by the locks lock.
 */
struct LockLines
{
	int first[kLines];
	int waiting;
	int peak;
	LockWaiter waiters[FLEXIBLE_ARRAY_MEMBER]; /* indexed by procno */
};

/*
 * Time (microseconds) that a woken process has to look at the lock. After it the process counts as
 * stopped, and the line goes on without it.
 */
static constexpr int64 kComesSoon = USECS_PER_SEC;

int64
lock_waiter_bytes()
{
	return sizeof(LockWaiter);
}

Size
lock_lines_size()
{
	return add_size(offsetof(LockLines, waiters), mul_size(process_count(), sizeof(LockWaiter)));
}

void
place_lock_lines(void *memory)
{
	memset(memory, 0, lock_lines_size());
	shared->lock_lines = static_cast<LockLines *>(memory);
	for (int &first : shared->lock_lines->first)
		first = kNobody;
}

static LockWaiter *
place_of(int procno)
{
	return &shared->lock_lines->waiters[procno];
}

static int *
line_of(const LockKey &key)
{
	return &shared->lock_lines->first[hash_of_name(key.database, key.name) % kLines];
}

static constinit bool waits_in_line = false;

void
join_lock_line(const LockKey &key, int32 slots)
{
	LockWaiter *me = place_of(my_procno());
	me->woken = 0;
	if (me->in_line)
		return;
	int *link = line_of(key);
	while (*link != kNobody)
		link = &place_of(*link)->next;
	*link = my_procno();
	*me = {.key = key,
		   .next = kNobody,
		   .in_line = true,
		   .slots = slots,
		   .woken = 0,
		   .session = me->session};
	waits_in_line = true;
	LockLines *lines = shared->lock_lines;
	lines->peak = Max(lines->peak, ++lines->waiting);
}

uint32
session_of(int procno)
{
	return place_of(procno)->session;
}

void
end_session_of(int procno)
{
	place_of(procno)->session++;
}

bool
in_lock_line()
{
	return waits_in_line;
}

LockKey
leave_lock_line()
{
	LockWaiter *me = place_of(my_procno());
	int *link = line_of(me->key);
	while (*link != my_procno())
		link = &place_of(*link)->next;
	*link = me->next;
	me->in_line = false;
	waits_in_line = false;
	shared->lock_lines->waiting--;
	return me->key;
}

static bool
is_away(const LockWaiter &waiter, int64 monotonic)
{
	return waiter.woken != 0 && monotonic - waiter.woken > kComesSoon;
}

int
waiting_before(const LockKey &key, int64 monotonic)
{
	int n = 0;
	for (int i = *line_of(key); i != kNobody && i != my_procno(); i = place_of(i)->next)
	{
		const LockWaiter *waiter = place_of(i);
		n += !is_away(*waiter, monotonic) && waiter->key == key;
	}
	return n;
}

int
wake_first_in_line(const LockKey &key, int64 monotonic)
{
	for (int i = *line_of(key); i != kNobody; i = place_of(i)->next)
	{
		LockWaiter *waiter = place_of(i);
		if (!(waiter->key == key))
			continue;
		if (waiter->woken == 0)
		{
			waiter->woken = monotonic;
			return i;
		}
		/* Wait for the woken process: it passes the wake-up on if it does not take the slot. */
		if (monotonic - waiter->woken <= kComesSoon)
			return kNobody;
	}
	return kNobody;
}

int
wake_able_in_line(const LockKey &key, int held, int64 monotonic)
{
	for (int i = *line_of(key); i != kNobody; i = place_of(i)->next)
	{
		LockWaiter *waiter = place_of(i);
		if (!(waiter->key == key) || is_away(*waiter, monotonic))
			continue;
		/* Waiters earlier in the line count like holders, as in waiting_before(). */
		if (held++ >= waiter->slots)
			continue;
		bool sleeps = waiter->woken == 0 && i != my_procno();
		if (sleeps)
			waiter->woken = monotonic;
		return sleeps ? i : kNobody;
	}
	return kNobody;
}

const LockKey *
awaited_by(int procno)
{
	const LockWaiter *waiter = place_of(procno);
	return waiter->in_line ? &waiter->key : nullptr;
}

void
await_claimer(int procno)
{
	static constinit bool awaits = false;
	if (awaits || procno != kNobody)
		place_of(my_procno())->claimer = procno + 1;
	awaits = procno != kNobody;
}

int
awaited_claimer(int procno)
{
	return place_of(procno)->claimer - 1;
}

int
waiting_for(const LockKey &key)
{
	int n = 0;
	for (int i = *line_of(key); i != kNobody; i = place_of(i)->next)
		n += place_of(i)->key == key;
	return n;
}

int
waiting_for_locks(int *peak)
{
	*peak = shared->lock_lines->peak;
	return shared->lock_lines->waiting;
}

} // namespace pgq
