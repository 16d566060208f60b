#include "load/reconcile.h"

#include "catalog/shape.h"
#include "engine/hold.h"
#include "load/attach.h"
#include "rows/head.h"
#include "rows/index.h"
#include "rows/look_up.h"
#include "txn/effects.h"

namespace pgq {

/*
 * Return whether a lease or the schedule knows the job, or whether the queue is going to read the
 * job's row again (recheck_at). look_at_all: also search all hints, and return true if a hint of
 * the job goes out no later than `hint`. The caller holds the queue's lock.
 */
static bool
is_known_job(const Queue *queue, const Hint &hint, bool look_at_all)
{
	if (holder_of(queue, hint.key.job_id) != nullptr || queue->schedule.covers(hint))
		return true;
	const ChangedRows &recheck = queue->recheck;
	if (queue->recheck_at != 0 && (queue->options.fifo || !(hint.key < recheck.key) ||
								   !(hint.timer_key() < recheck.timer_key)))
		return true;
	return look_at_all && queue->schedule.leads_to(hint);
}

/* Like is_known_job(), but takes the queue's lock. Returns true if the queue is gone. */
static bool
is_known(const QueueRef &ref, const Hint &hint, bool look_at_all)
{
	bool known = true;
	(void) look_at_queue(
		ref, [&](const Queue &queue) { known = is_known_job(&queue, hint, look_at_all); });
	return known;
}

/* ---- the first look ---- */

namespace {

struct Row
{
	bool live;
	int32 queue_id;
	Hint hint;
	TransactionId xmin;
};

} // namespace

static Row
read_version(const IndexLookup &lookup, uint16 segment)
{
	TupleDesc desc = lookup.slot->tts_tupleDescriptor;
	bool is_null;
	Row row;
	Datum expires_at = heap_getattr(lookup.tuple, kJobExpiresAt, desc, &is_null);
	/* Memory need not know an expired or blocked job, since no claim hands out the job. */
	bool expired = !is_null && DatumGetTimestampTz(expires_at) <= wall_now();
	row.live = !expired && !is_blocked(lookup.tuple, desc) &&
			   visibility_of(lookup.tuple, lookup.buffer) == Visibility::kLive;
	row.queue_id = DatumGetInt32(heap_getattr(lookup.tuple, kJobQueueId, desc, &is_null));
	row.hint = hint_of(lookup.tuple, desc, segment);
	row.xmin = HeapTupleHeaderGetXmin(lookup.tuple->t_data);
	return row;
}

namespace {

/* Rows that memory does not know, of one segment, in the order of their ids. */
struct Unknown
{
	static constexpr int kMost = 2048;

	Suspect *rows;
	int n;
	int suspects; /* number of rows that are sure to be suspects: needs_only_head() is false */

	bool full(const Reconciliation *state) const
	{
		return n == kMost || state->n + suspects >= kSuspectsMax;
	}
};

/*
 * The first rows of the groups that have unknown rows. The first row of each group is read once.
 *
 * A row whose job has expired can be a first row, too. Memory may have only the hint of that row,
 * and finds the next row when a claim meets the hint, or when the scheduler ends the job.
 */
class FirstRows
{
public:
	FirstRows()
	{
		HASHCTL ctl{};
		ctl.keysize = sizeof(Name);
		ctl.entrysize = sizeof(Entry);
		ctl.hcxt = CurrentMemoryContext;
		table_ = hash_create("pgq first rows", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	void end()
	{
		hash_destroy(table_);
		segments_.close();
	}

	/* Return whether the group has an earlier row. */
	bool is_behind_first(const Suspect &row)
	{
		bool found;
		Name name{row.ref.queue_id, row.hint.group};
		auto *entry = static_cast<Entry *>(hash_search(table_, &name, HASH_ENTER, &found));
		if (!found)
			entry->first = PG_INT64_MAX;
		Hint first;
		if (!found && find_first_row(segments_, name.queue_id, name.group, &first))
			entry->first = first.key.job_id;
		return entry->first < row.hint.key.job_id;
	}

private:
	struct Name
	{
		int64 queue_id;
		int64 group;
	};
	struct Entry
	{
		Name name;
		int64 first; /* job_id; PG_INT64_MAX: the group has no row */
	};
	HTAB *table_;
	SegmentSet segments_{AccessShareLock};
};

} // namespace

/*
 * Return whether the row belongs to a group of a queue with fifo. Of such a group, memory needs
 * only the head.
 */
static bool
needs_only_head(const QueueRef &ref, const Hint &hint)
{
	bool fifo = false;
	(void) look_at_queue(ref, [&](const Queue &queue) { fifo = queue.options.fifo; });
	return fifo && hint.group != 0;
}

static void
look_at(Unknown *unknown, const Row &row)
{
	QueueRef ref;
	/*
	 * A queue without a slot needs no check: when the queue gets a slot, all of its rows are read.
	 */
	if (!row.live || unknown->n == Unknown::kMost ||
		!find_attached_queue(tables().database, row.queue_id, &ref) ||
		is_known(ref, row.hint, false))
		return;
	unknown->rows[unknown->n++] = {ref, row.hint, row.xmin};
	unknown->suspects += !needs_only_head(ref, row.hint);
}

/*
 * Note the unknown rows as suspects, except rows that wait for the head of their group. If there
 * are too many suspects, the next call of reconcile_segment() begins at the first row that was not
 * noted. The caller holds no lock of a segment, since the search for a head locks all segments.
 */
static void
note_suspects(Reconciliation *state, const Unknown &unknown)
{
	if (unknown.n == 0)
		return;
	FirstRows first_rows;
	for (const Suspect *row = unknown.rows; row < unknown.rows + unknown.n; row++)
	{
		CHECK_FOR_INTERRUPTS();
		if (needs_only_head(row->ref, row->hint) && first_rows.is_behind_first(*row))
			continue;
		if (state->n == kSuspectsMax)
		{
			state->next_id = row->hint.key.job_id;
			break;
		}
		state->suspects[state->n++] = *row;
	}
	first_rows.end();
}

/*
 * Read row versions of a segment, from state->next_id on. Return the number of versions read. Set
 * *rest to whether the segment may have further versions.
 */
static int
reconcile_segment(Reconciliation *state, const Segment &segment, int most, bool *rest)
{
	Unknown unknown{};
	unknown.rows = static_cast<Suspect *>(palloc(Unknown::kMost * sizeof(Suspect)));
	SegmentSet segments(AccessShareLock);
	Relation rel = segments.open(segment.number);
	IndexLookup lookup;
	open_index_lookup(&lookup, rel, shape_of(rel, segment.number).index[kById], 1);
	ScanKeyData key;
	ScanKeyInit(&key, 1, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(state->next_id));
	index_rescan(lookup.scan, &key, 1, nullptr, 0);
	int n = 0;
	*rest = false;
	while (next_version(&lookup))
	{
		Row row = read_version(lookup, static_cast<uint16>(segment.number));
		unlock_version(&lookup);
		/* Stop only between two jobs, not between two versions of one job. */
		bool enough = n >= most || unknown.full(state);
		*rest = enough && row.hint.key.job_id >= state->next_id;
		if (*rest)
			break;
		look_at(&unknown, row);
		state->next_id = row.hint.key.job_id + 1;
		n++;
		CHECK_FOR_INTERRUPTS();
	}
	end_index_lookup(&lookup);
	segments.close();
	int64 read_to = state->next_id;
	note_suspects(state, unknown);
	*rest |= state->next_id < read_to;
	pfree(unknown.rows);
	return n;
}

static int
writers_of_segments(VirtualTransactionId *writers)
{
	int n = 0;
	for (const Segment &segment : look_at_tables().segments(kJobRing))
	{
		LOCKTAG tag;
		int count;
		SET_LOCKTAG_RELATION(tag, MyDatabaseId, segment.heap);
		VirtualTransactionId *holders = GetLockConflicts(&tag, ShareLock, &count);
		/*
		 * Skip prepared transactions, which have no process; has_settled() handles these
		 * transactions.
		 */
		for (int k = 0; k < count; k++)
			if (is_of_process(holders[k]))
				writers[n++] = holders[k];
		pfree(holders);
	}
	return n;
}

static Size
writers_size()
{
	return mul_size(kMaxSegments * MaxBackends, sizeof(VirtualTransactionId));
}

static void
note_writers(Reconciliation *state, bool first)
{
	if (state->writers == nullptr)
		state->writers = static_cast<VirtualTransactionId *>(
			MemoryContextAlloc(TopMemoryContext, writers_size()));
	state->n_writers = writers_of_segments(state->writers);
	if (first)
		state->noted_at = monotonic_now();
}

static void
go_to(Reconciliation *state, int segment)
{
	state->segment = segment;
	state->next_id = 0;
}

/*
 * Read the next row versions. Returns false if all segments have been read; the next call starts
 * again with the first segment.
 */
static bool
read_on(Reconciliation *state, int most)
{
	const Tables &t = look_at_tables();
	while (state->segment < kMaxSegments)
	{
		const Segment *segment = t.find(state->segment);
		bool rest = false;
		if (segment != nullptr)
			most -= reconcile_segment(state, *segment, most, &rest);
		if (most <= 0 || state->n == kSuspectsMax)
			return true;
		if (!rest)
			go_to(state, state->segment + 1);
	}
	go_to(state, 0);
	return false;
}

void
skip_segment(Reconciliation *state)
{
	go_to(state, state->segment + 1);
	state->n = 0;
}

bool
reconcile_rows(Reconciliation *state, int most)
{
	int before = state->n;
	bool more = read_on(state, most);
	if (state->n > before)
		note_writers(state, before == 0);
	return more;
}

/* ---- the second look ---- */

/*
 * Return whether the effects of the transaction that wrote the version have been made. A commit
 * makes the effects in callbacks, before the transaction counts as ended. COMMIT PREPARED runs no
 * callbacks; after it, resolve_prepared() makes the effects.
 */
static bool
has_settled(TransactionId xmin)
{
	if (TransactionIdIsNormal(xmin) && !has_ended(xmin))
		return false;
	resolve_prepared();
	return !resolving_prepared();
}

static bool
is_same_version(SegmentSet &segments, const Suspect &suspect)
{
	JobRow row;
	return verify_job(segments, suspect.hint.place, suspect.hint.key.job_id, &row) ==
			   Visibility::kLive &&
		   row.queue_id() == suspect.ref.queue_id && row.hint().key == suspect.hint.key &&
		   HeapTupleHeaderGetXmin(row.tuple->t_data) == suspect.xmin;
}

/*
 * File the job if memory still does not know it. Returns whether the job was filed. many: there may
 * be more forgotten rows than the noted suspects, so the whole queue is read again.
 */
static bool
file_if_forgotten(const Suspect &suspect, bool many)
{
	bool forgotten = false;
	(void) change_queue(suspect.ref, [&](QueueHold &hold) {
		forgotten = !is_known_job(hold.queue(), suspect.hint, true);
		if (!forgotten)
			return;
		hold->counters.repaired++;
		/* The transaction that has forgotten to file the row has not counted the row either. */
		forget_count(hold->count);
		hold.file(suspect.hint);
		if (many)
			hold.read_from(Key::lowest(), TimerKey::lowest());
	});
	return forgotten;
}

/* Return whether the suspect waits for the first row of its group. */
static bool
waits_for_its_head(SegmentSet &segments, const Suspect &suspect)
{
	Hint first;
	return needs_only_head(suspect.ref, suspect.hint) &&
		   find_first_row(segments, suspect.ref.queue_id, suspect.hint.group, &first) &&
		   first.key.job_id < suspect.hint.key.job_id;
}

static bool
repair_if_forgotten(SegmentSet &segments, const Suspect &suspect, bool many)
{
	return has_settled(suspect.xmin) && !is_known(suspect.ref, suspect.hint, true) &&
		   is_same_version(segments, suspect) && !waits_for_its_head(segments, suspect) &&
		   file_if_forgotten(suspect, many);
}

static bool
any_writer_left(const Reconciliation *state)
{
	auto *now = static_cast<VirtualTransactionId *>(palloc(writers_size()));
	int n = writers_of_segments(now);
	bool left = false;
	for (int i = 0; i < n; i++)
		for (int k = 0; k < state->n_writers; k++)
			left |= VirtualTransactionIdEquals(now[i], state->writers[k]);
	pfree(now);
	return left;
}

bool
repair_forgotten(Reconciliation *state, void (*report)(void *context, const Suspect &suspect),
				 void *context)
{
	if (state->n == 0)
		return true;
	/*
	 * Transactions that were writing when the suspects were noted may be about to file a suspect.
	 * But a transaction that stays open for long may be unrelated, so wait for at most kPatience
	 * (microseconds).
	 */
	static constexpr int64 kPatience = 10 * USECS_PER_SEC;
	if (monotonic_now() - state->noted_at < kPatience && any_writer_left(state))
		return false;
	SegmentSet segments(AccessShareLock);
	bool many = state->n == kSuspectsMax;
	for (int i = 0; i < state->n; i++)
	{
		const Suspect &suspect = state->suspects[i];
		CHECK_FOR_INTERRUPTS();
		if (!repair_if_forgotten(segments, suspect, many))
			continue;
		ereport(WARNING,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("job %lld of queue \"%s\" was missing in memory and is there again",
						static_cast<long long>(suspect.hint.key.job_id), suspect.ref.queue->name),
				 errhint("This can happen if the row of the job was written while the trigger "
						 "job_changed was disabled. Otherwise please report it.")));
		if (report != nullptr)
			report(context, suspect);
	}
	state->n = 0;
	segments.close();
	return true;
}

} // namespace pgq
