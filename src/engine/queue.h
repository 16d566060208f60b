/*
 * The slot of a queue, composed of parts. Each part belongs to the file that uses it, and is
 * initialized by a function of that file. registry.h finds, attaches and frees slots.
 */
#pragma once

#include "core/rate.h"
#include "core/schedule.h"
#include "engine/count.h"
#include "engine/counters.h"
#include "engine/database.h"
#include "engine/latency.h"
#include "engine/lease_entry.h"
#include "engine/queue_handler.h"
#include "engine/queue_options.h"
#include "engine/waiting_line.h"

namespace pgq {

inline constexpr int kQueueNameMax = 59; /* bytes: "pgq_" + name is a channel of at most 63 */

/*
 * Identity of the queue. Written under both the registry lock and the queue's lock, and read under
 * either of them, with two exceptions. A slot becomes DYING (state and generation) under the
 * queue's lock alone, and FREE (state) under the registry lock alone. All fields except the name
 * are also read without a lock, by code that looks for slots and later compares the generation
 * under the queue's lock.
 */
struct QueueIdentity
{
	pg_atomic_uint32 generation; /* read before the state; see ref_of() */
	Relaxed<SlotState> state;
	Relaxed<Database *> database;
	Relaxed<uint32> database_generation;
	Relaxed<int32> queue_id;
	char name[kQueueNameMax + 1]; /* to read the name without a lock, call read_name() */
	/* raised before and after each change of the name: odd during a change */
	pg_atomic_uint32 namings;
};

/* The part that each call reads, and that is seldom written. */
struct QueueSetup
{
	LWLock *lock; /* set when shared memory is created */
	/* Protected by the lock. */
	QueueOptions options;
	uint32 options_set; /* how often the options of this slot have been set */
};

/*
 * State of purges, drops and moves, which keep claims from jobs of the queue. Protected by the
 * queue's lock. `dropping` is also read without the lock; a transaction that drops a queue sees its
 * own value there.
 */
struct Gate
{
	int holds; /* purges and drops of the queue in open transactions; not 0: no job is claimed */
	Relaxed<bool> dropping;
	VirtualTransactionId dropper;
	/* the last transaction that has taken jobs in order to move their rows */
	VirtualTransactionId mover;
	TimestampTz mover_due; /* when the earliest job that the mover has taken is due */
};

/* Statistics of the queue. Protected by the queue's lock, unless a comment says otherwise. */
struct QueueStory
{
	QueueCounters counters;
	pg_atomic_uint64 calls[kCalls]; /* indexed by Call; atomics, no lock */
	pg_atomic_uint64 last_skip_at;	/* time of the last Call::kSkipped, 0: none; atomic, no lock */
	TimestampTz last_claim_at;		/* 0: no claim since the queue was loaded */
	TimestampTz loaded_at;
};

/* State of the scheduler's work for the queue. Protected by the queue's lock. */
struct QueueService
{
	int64 served_at; /* when the scheduler last counted lost leases, or found none (monotonic) */
	/*
	 * A NOTIFY is to be sent. The scheduler also reads this without the lock, since it is woken
	 * after a change.
	 */
	Relaxed<bool> notify_pending;
	DutyStatus duties[kQueueDutyStatuses];
};

/*
 * A slot. Each claim writes the fields from LeaseLists on. So they are in other cache lines than
 * the first two parts, which each call reads.
 */
struct Queue : QueueIdentity, QueueSetup, LeaseLists, WaitingLine, Gate, QueueService, QueueStory
{
	/* All fields below: protected by the queue's lock. */
	Schedule schedule;
	Rate rate; /* counts the hand-outs while there is a rate limit */
	/*
	 * Until this time (monotonic), the rate limit may count assumed hand-outs; 0: it counts real
	 * hand-outs only (rate_limit.h).
	 */
	int64 unknown_until;
	/*
	 * When the rate limit lets one more job start (monotonic); INT64_MAX: no job waits for the rate
	 * limit alone.
	 */
	int64 next_start;
	/* number of groups beyond its reserved ones that the queue may remember (group_pool.h) */
	int groups_common;
	JobCount count; /* JobCount says which of its fields are also read without the lock */
	QueueHandler handler;
	QueueLatency latency;
};
static_assert(std::is_trivially_copyable_v<Queue> && std::is_trivially_destructible_v<Queue>);
static_assert(sizeof(Queue) % kCacheLine == 0);

/* A reference to a queue, as a backend keeps it. Valid while the slot has this generation. */
struct QueueRef
{
	Queue *queue;
	uint32 generation;
	int32 queue_id;
};

/*
 * Return whether the slot probably still has the generation of ref. Needs no lock; the answer is
 * certain only under the queue's lock, from is_current().
 */
inline bool
is_alive(const QueueRef &ref)
{
	return pg_atomic_read_u32(&ref.queue->generation) == ref.generation;
}

/*
 * Return whether the slot still belongs to the queue of ref, and is in use. Called under the
 * queue's lock.
 */
inline bool
is_current(const QueueRef &ref)
{
	return is_alive(ref) && ref.queue->state == SlotState::kUsed;
}

/*
 * Store a reference to the queue that the slot has now. Return whether the slot is in use. A slot
 * that dies changes first its state and then its generation. So if the state, read after the
 * generation, is USED, the generation is that of a queue and not yet the next generation. The id is
 * read last: a slot that is filled gets its id before its state, so the id is that of this queue.
 */
inline bool
ref_of(Queue *queue, QueueRef *ref)
{
	uint32 generation = pg_atomic_read_u32(&queue->generation);
	pg_read_barrier();
	bool used = queue->state == SlotState::kUsed;
	pg_read_barrier();
	*ref = {queue, generation, queue->queue_id};
	return used;
}

inline void
count_call(const QueueRef &ref, Call call)
{
	if (is_alive(ref))
		pg_atomic_fetch_add_u64(&ref.queue->calls[static_cast<int>(call)], 1);
}

/* Count jobs that a publish has left out because the queue was full. */
inline void
count_skipped(const QueueRef &ref, int64 jobs)
{
	if (!is_alive(ref))
		return;
	pg_atomic_fetch_add_u64(&ref.queue->calls[static_cast<int>(Call::kSkipped)], jobs);
	pg_atomic_write_u64(&ref.queue->last_skip_at, static_cast<uint64>(wall_now()));
}

struct QueueName
{
	char text[kQueueNameMax + 1];
};

/* Set the name. Called under both the registry lock and the queue's lock. */
inline void
set_name(Queue *queue, const char *name)
{
	pg_atomic_fetch_add_u32(&queue->namings, 1);
	strlcpy(queue->name, name, sizeof(queue->name));
	pg_atomic_fetch_add_u32(&queue->namings, 1);
}

/*
 * Copy a consistent name. Return the value that `namings` keeps as long as the queue has that name.
 */
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
