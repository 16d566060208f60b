#include "engine/handler_slot.h"

#include "engine/handler_crash.h"
#include "engine/registry.h"
#include "pg/scope.h"
#include "pg/server_stop.h"

#include <csignal>

namespace pgq {

/* The slot of this process, if it is a handler's worker. */
static constinit HandlerSlot *my_slot = nullptr;
/*
 * Monotonic: kSoon after the first handler's worker was started. A call that begins before this
 * time begins "soon after the start of the server" (HandlerSuspects).
 */
static constinit int64 soon_until = 0;

Size
handler_slots_size()
{
	return add_size(offsetof(HandlerSlots, slots),
					mul_size(max_handler_workers, sizeof(HandlerSlot)));
}

void
place_handler_slots(void *memory)
{
	shared->handlers = static_cast<HandlerSlots *>(memory);
	memset(memory, 0, handler_slots_size());
	for (int i = 0; i < max_handler_workers; i++)
	{
		HandlerSlot &slot = shared->handlers->slots[i];
		pg_atomic_init_u32(&slot.in_call, 0);
		pg_atomic_init_u32(&slot.quit, 0);
		pg_atomic_init_u64(&slot.number, 0);
		pg_atomic_init_u64(&slot.cancelled, 0);
	}
	shared->handlers->careful = recall_crashes(shared->handlers->suspects);
}

/* Return the greatest number of tickets. One hold of the lock can visit all of them. */
static int
ticket_count()
{
	return Min(max_queues, kHoldMax);
}

Size
handler_tickets_size()
{
	return mul_size(ticket_count(), sizeof(HandlerTicket));
}

void
place_handler_tickets(void *memory)
{
	shared->handler_tickets = static_cast<HandlerTicket *>(memory);
	memset(memory, 0, handler_tickets_size());
}

template <typename Body>
static auto
with_slots(Body body)
{
	return with_lwlock(shared->handlers_lock, LW_EXCLUSIVE, body);
}

/* ---- tickets; all functions are called under the handlers lock ---- */

static HandlerTickets
tickets()
{
	return {shared->handler_tickets, ticket_count(), &shared->handlers->tickets_drawn};
}

static RoleWorkers
workers_of(Oid database, Oid role)
{
	RoleWorkers workers{};
	for (int i = 0; i < max_handler_workers; i++)
	{
		const HandlerSlot &slot = shared->handlers->slots[i];
		if (slot.state == HandlerSlot::kFree || slot.database != database || slot.role != role)
			continue;
		workers.all++;
		workers.idle += slot.idle;
	}
	return workers;
}

static bool
another_goes_first(Oid role, int64 now)
{
	return tickets().another_goes_first(MyDatabaseId, role, now,
										[](Oid d, Oid r) { return workers_of(d, r).all > 0; });
}

/* true: this database may have tickets, of this scheduler or of an earlier one. */
static constinit bool has_tickets = true;

static void
keep_ticket(Oid role, int64 now)
{
	tickets().keep(MyDatabaseId, role, now);
	has_tickets = true;
}

/*
 * Wake the schedulers of the databases for which which(database) is true. Called without the lock.
 */
template <typename Which>
static void
wake_schedulers(Which which)
{
	for (int i = 0; i < shared->max_databases; i++)
		if (const Database &database = shared->databases[i];
			database.state == SlotState::kUsed && which(database))
			wake_scheduler(&database);
}

/* ---- for schedulers ---- */

/* Return whether handlers have to be careful: for kSoon from the first start of a worker on. */
static bool
is_careful(int64 now)
{
	return shared->handlers->careful && now - shared->handlers->began < HandlerSuspects::kSoon;
}

static HandlerSlot *
free_slot(int64 now)
{
	int n = is_careful(now) ? Min(max_handler_workers, 1) : max_handler_workers;
	for (int i = 0; i < n; i++)
		if (shared->handlers->slots[i].state == HandlerSlot::kFree)
			return &shared->handlers->slots[i];
	return nullptr;
}

bool
take_handler_slot(Oid role, const QueueRef &first, HandlerOrder *order)
{
	return with_slots([&] {
		/* Leave a ticket if no slot is free for this role. Otherwise fill the slot and the order. */
		int64 now = monotonic_now();
		if (shared->handlers->began == 0)
			shared->handlers->began = now;
		HandlerSlot *slot = free_slot(now);
		if (slot == nullptr || another_goes_first(role, now))
		{
			keep_ticket(role, now);
			return false;
		}
		tickets().remove(MyDatabaseId, role, now);
		slot->state = HandlerSlot::kStarting;
		slot->idle = false;
		slot->start = ++shared->handlers->starts;
		slot->database = MyDatabaseId;
		slot->role = role;
		slot->first = first;
		slot->began = now;
		pg_atomic_write_u32(&slot->in_call, 0);
		pg_atomic_write_u32(&slot->quit, 0);
		pg_atomic_write_u64(&slot->number, 0);
		*order = {.slot = static_cast<int>(slot - shared->handlers->slots),
				  .start = slot->start,
				  .role = role,
				  .tablespace = InvalidOid,
				  .first = first};
		return true;
	});
}

void
return_handler_slot(const HandlerOrder &order)
{
	with_slots([&] {
		HandlerSlot &slot = shared->handlers->slots[order.slot];
		if (slot.start == order.start)
			slot.state = HandlerSlot::kFree;
		keep_ticket(order.role, monotonic_now());
	});
}

bool
drop_unbegun_slot(bool all_own, QueueRef *first)
{
	static constexpr int64 kBeginsWithin = 10 * USECS_PER_SEC;
	return with_slots([&] {
		int64 now = monotonic_now();
		for (int i = 0; i < max_handler_workers; i++)
		{
			HandlerSlot &slot = shared->handlers->slots[i];
			bool dropped =
				now - slot.began > kBeginsWithin || (all_own && slot.database == MyDatabaseId);
			if (slot.state != HandlerSlot::kStarting || !dropped)
				continue;
			*first = slot.first;
			slot.state = HandlerSlot::kFree;
			return true;
		}
		return false;
	});
}

void
drop_old_tickets(int64 began)
{
	int removed = 0;
	int left = 0;
	if (!has_tickets)
		return;
	with_slots([&] { removed = tickets().remove_older(MyDatabaseId, began, &left); });
	has_tickets = left > 0;
	if (removed > 0)
		wake_schedulers([](const Database &) { return true; });
}

RoleWorkers
workers_of_role(Oid role)
{
	return with_slots([&] { return workers_of(MyDatabaseId, role); });
}

/* Wake the running workers for which which(slot) is true. Returns their number. */
template <typename Which>
static int
wake_workers(Which which)
{
	int n = 0;
	for (int i = 0; i < max_handler_workers; i++)
	{
		int procno = with_slots([&] {
			const HandlerSlot &slot = shared->handlers->slots[i];
			return slot.state == HandlerSlot::kRunning && which(slot) ? slot.procno : kNobody;
		});
		if (procno == kNobody)
			continue;
		SetLatch(latch_of(procno));
		n++;
	}
	return n;
}

int
wake_handler_workers()
{
	return wake_workers([](const HandlerSlot &slot) { return slot.database == MyDatabaseId; });
}

void
wake_idle_workers()
{
	(void) wake_workers([](const HandlerSlot &slot) { return slot.idle; });
}

bool
take_suspect(CrashSuspect *suspect)
{
	return with_slots([&] {
		for (CrashSuspect &noted : shared->handlers->suspects)
			if (noted.crashes > 0 && noted.call.database == MyDatabaseId)
			{
				*suspect = noted;
				noted = {};
				return true;
			}
		return false;
	});
}

void
return_suspect(const CrashSuspect &suspect)
{
	with_slots([&] {
		for (CrashSuspect &noted : shared->handlers->suspects)
			if (noted.crashes == 0)
			{
				noted = suspect;
				return;
			}
	});
}

/* ---- for a worker ---- */

bool
begin_handler_worker(const HandlerOrder &order)
{
	return with_slots([&] {
		HandlerSlot *slot = &shared->handlers->slots[order.slot];
		if (slot->state != HandlerSlot::kStarting || slot->start != order.start)
			return false;
		slot->state = HandlerSlot::kRunning;
		slot->procno = my_procno();
		slot->pid = MyProcPid;
		my_slot = slot;
		soon_until = shared->handlers->began + HandlerSuspects::kSoon;
		return true;
	});
}

void
end_handler_worker()
{
	bool waiting = false;
	if (my_slot == nullptr)
		return;
	end_handler_call();
	/* As soon as the slot is free, another scheduler may use it. */
	Oid mine = my_slot->database;
	with_slots([&] {
		my_slot->state = HandlerSlot::kFree;
		waiting = tickets().any_waits(monotonic_now());
	});
	wake_schedulers([&](const Database &database) { return waiting || database.oid == mine; });
	my_slot = nullptr;
}

bool
others_want_slot()
{
	return with_slots(
		[] { return tickets().another_waits(my_slot->database, my_slot->role, monotonic_now()); });
}

void
set_handler_idle(bool idle)
{
	with_slots([&] { my_slot->idle = idle; });
}

bool
calls_are_careful()
{
	return shared->handlers->careful && monotonic_now() < soon_until;
}

static int
my_slot_number()
{
	return static_cast<int>(my_slot - shared->handlers->slots);
}

/* The number of a call modulo kMostSlots is the number of its slot. */
static constexpr uint64 kMostSlots = kHoldMax;

uint64
begin_handler_call(const HandlerCall &call)
{
	int index = my_slot_number();
	uint64 number = ++my_slot->calls * kMostSlots + static_cast<uint64>(index);
	bool soon = monotonic_now() < soon_until;
	note_call_begin(index, call, soon, calls_are_careful());
	my_slot->call = call;
	my_slot->soon = soon;
	pg_write_barrier();
	pg_atomic_write_u64(&my_slot->number, number);
	pg_atomic_write_u32(&my_slot->in_call, 1);
	return number;
}

void
end_handler_call()
{
	pg_atomic_write_u64(&my_slot->number, 0);
	pg_atomic_write_u32(&my_slot->in_call, 0);
	note_call_end(my_slot_number());
}

bool
call_is_cancelled()
{
	uint64 number = my_slot != nullptr ? pg_atomic_read_u64(&my_slot->number) : 0;
	return number != 0 && pg_atomic_read_u64(&my_slot->cancelled) == number;
}

void
note_handler_quit()
{
	if (my_slot != nullptr)
		pg_atomic_write_u32(&my_slot->quit, 1);
}

/* ---- cancel ---- */

bool
cancel_handler_call(uint64 number)
{
	HandlerSlot &slot = shared->handlers->slots[number % kMostSlots];
	if (number == 0 || pg_atomic_read_u64(&slot.number) != number)
		return false;
	/*
	 * A process gives its slot back under the lock, so the signal reaches no other process. The
	 * worker compares the number with that of its present call. The greatest number stays: a late
	 * cancel of an earlier call must not replace a cancel of the present call.
	 */
	return with_slots([&] {
		if (slot.state != HandlerSlot::kRunning || pg_atomic_read_u64(&slot.number) != number)
			return false;
		if (pg_atomic_read_u64(&slot.cancelled) < number)
			pg_atomic_write_u64(&slot.cancelled, number);
		return kill(slot.pid, SIGUSR2) == 0;
	});
}

/* ---- crashes ---- */

/*
 * Note the workers that were in a call and have not got SIGQUIT: one of them has crashed the
 * server. If there is none, the calls in progress are under a weak suspicion, unless an
 * administrator has stopped the server in mode immediate. The postmaster calls this when all other
 * processes have ended. Shared memory may be damaged, so only the slots are read.
 */
static void
note_handler_crashes(int, Datum)
{
	auto in_call = [](HandlerSlot &slot) {
		return slot.state == HandlerSlot::kRunning && pg_atomic_read_u32(&slot.in_call) == 1;
	};
	auto is_silent = [&](HandlerSlot &slot) {
		return in_call(slot) && pg_atomic_read_u32(&slot.quit) == 0;
	};
	bool any_silent = false;
	for (int i = 0; i < max_handler_workers; i++)
		any_silent |= is_silent(shared->handlers->slots[i]);
	bool is_asked = !any_silent && server_is_stopping();
	begin_end_notes();
	for (int i = 0; i < max_handler_workers && !is_asked; i++)
	{
		HandlerSlot &slot = shared->handlers->slots[i];
		if (any_silent ? is_silent(slot) : in_call(slot))
			suspect_call(slot.call, !any_silent, slot.soon);
	}
	finish_end_notes();
}

void
watch_for_handler_crashes()
{
	if (keeps_crash_notes() && !IsUnderPostmaster)
		on_shmem_exit(note_handler_crashes, (Datum) 0);
}

} // namespace pgq
