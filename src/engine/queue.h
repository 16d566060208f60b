/*
 * The slot of a queue: parts that belong to those who use them, each with a function that makes
 * it new. registry.h says how slots are found and used again.
 */
#pragma once

#include "core/rate.h"
#include "core/schedule.h"
#include "engine/count.h"
#include "engine/counters.h"
#include "engine/database.h"
#include "engine/latency.h"
#include "engine/lease_entry.h"
#include "engine/queue_options.h"
#include "engine/waiting_line.h"

namespace pgq {

inline constexpr int kQueueNameMax = 59; /* bytes: "pgq_" + name is a channel of at most 63 */

/*
 * Which queue it is. Written under the registry lock and the queue's, so read under either; but a slot
 * begins to die under the queue's lock alone (state and generation), and is free under the registry lock
 * alone (state). All but the name are read racily, too, by those who look for slots and compare the
 * generation under the queue's lock, after.
 */
struct QueueIdentity
{
	pg_atomic_uint32 generation; /* read before the state: see ref_of() */
	Relaxed<SlotState> state;
	Relaxed<Database *> database;
	Relaxed<uint32> database_generation;
	Relaxed<int32> queue_id;
	char name[kQueueNameMax + 1]; /* without a lock: read_name() */
	pg_atomic_uint32 namings; /* raised before and after each change of the name: odd during it */
};

/* Who has closed the queue. Under its lock; dropping is read racily, too: who drops a queue knows that himself. */
struct Gate
{
	int holds; /* transactions that purge or drop the queue: nothing is popped */
	Relaxed<bool> dropping;
	VirtualTransactionId dropper;
	VirtualTransactionId mover; /* the last transaction that took jobs in hand to move their rows */
	TimestampTz mover_due;		/* when the first of those is due, or was */
};

/* Under the queue's lock. */
struct QueueStory
{
	QueueCounters counters;
	pg_atomic_uint64 calls[kCalls]; /* without a lock, by Call */
	TimestampTz last_claim_at;		/* 0: none since the queue was loaded */
	TimestampTz loaded_at;
};

/* What the scheduler does for the queue. Under its lock. */
struct QueueService
{
	int64 served_at; /* monotonic: when the scheduler could last count lost leases, or found none */
	Relaxed<bool>
		notify_pending; /* read racily by the scheduler, which will be woken and look again */
	DutyNote duties[kQueueDutyNotes];
};

struct Queue : QueueIdentity, LeaseLists, WaitingLine, Gate, QueueService, QueueStory
{
	LWLock *lock; /* set when shared memory is made */

	/* Under the queue's lock. */
	QueueOptions options;
	uint32 options_set; /* how often the options of this slot have been set */
	Schedule schedule;
	Rate rate; /* of hand-outs, while there is a limit */
	int64
		unknown_until; /* monotonic: until then starts that are not known count; 0: all are known */
	int64
		next_start; /* monotonic: when the rate lets one more start, if jobs wait for that; INT64_MAX: none does */
	int groups_common; /* groups that may be remembered, of the common ones; see group_pool.h */
	JobCount count;	   /* but for what it says itself */
	QueueLatency latency;
};
static_assert(std::is_trivially_copyable_v<Queue> && std::is_trivially_destructible_v<Queue>);

/* A queue as a backend remembers it. Valid while the generations agree. */
struct QueueRef
{
	Queue *queue;
	uint32 generation;
	int32 queue_id;
};

/* A cheap check without the lock; what counts is is_current() under the lock. */
inline bool
is_alive(const QueueRef &ref)
{
	return pg_atomic_read_u32(&ref.queue->generation) == ref.generation;
}

/* Under the queue's lock. */
inline bool
is_current(const QueueRef &ref)
{
	return is_alive(ref) && ref.queue->state == SlotState::kUsed;
}

/*
 * The slot as it is now. A slot that dies changes its state first, then its generation: so who reads the
 * generation first and then finds it in use has that of a queue, not the next one.
 */
inline bool
ref_of(Queue *queue, QueueRef *ref)
{
	uint32 generation = pg_atomic_read_u32(&queue->generation);
	pg_read_barrier();
	*ref = {queue, generation, queue->queue_id};
	return queue->state == SlotState::kUsed;
}

inline void
count_call(const QueueRef &ref, Call call)
{
	if (is_alive(ref))
		pg_atomic_fetch_add_u64(&ref.queue->calls[static_cast<int>(call)], 1);
}

struct QueueName
{
	char text[kQueueNameMax + 1];
};

/* Under the registry lock and the queue's. */
inline void
set_name(Queue *queue, const char *name)
{
	pg_atomic_fetch_add_u32(&queue->namings, 1);
	strlcpy(queue->name, name, sizeof(queue->name));
	pg_atomic_fetch_add_u32(&queue->namings, 1);
}

/* Copy a consistent name. Return the value that namings keeps as long as the queue has that name. */
inline uint32
read_name(Queue *queue, QueueName *name)
{
	uint32 before;
	do
	{
		before = pg_atomic_read_u32(&queue->namings) & ~1U;
		pg_read_barrier();
		memcpy(name->text, queue->name, sizeof(name->text));
		pg_read_barrier();
	} while (pg_atomic_read_u32(&queue->namings) != before);
	return before;
}

/* Return whether the name is unchanged since read_name(). */
inline bool
has_name_of(Queue *queue, uint32 namings)
{
	return pg_atomic_read_u32(&queue->namings) == namings;
}

Size queues_size();
void place_queues(void *memory, LWLockPadded *locks);
Size windows_size();
void place_windows(void *memory);
Size counts_size();
void place_counts(void *memory);

} // namespace pgq
