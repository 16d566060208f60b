#include "store/segment.h"

#include "pg/scope.h"
#include "pg/stop_point.h"
#include "store/index.h"
#include "store/spi.h"
#include "txn/effects.h"

namespace pgq {

int64
segment_bytes(const Segment &segment)
{
	return DatumGetInt64(
		DirectFunctionCall1(pg_total_relation_size, ObjectIdGetDatum(segment.heap)));
}

bool
is_bare(const Segment &segment)
{
	Relation rel = table_open(segment.heap, AccessShareLock);
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);
	table_close(rel, AccessShareLock);
	return blocks == 0;
}

/* ---- reading ---- */

/* The versions of a segment's rows by job id, from one on. */
static void
start_by_id(IndexLookup *lookup, Relation rel, const Segment &segment, int64 from)
{
	ScanKeyData key;
	open_index_lookup(lookup, rel, segment.by_id, 1);
	ScanKeyInit(&key, 1, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(from));
	index_rescan(lookup->scan, &key, 1, nullptr, 0);
}

static int64
job_id_of(const IndexLookup &lookup)
{
	bool is_null;
	return DatumGetInt64(
		heap_getattr(lookup.tuple, kJobId, lookup.slot->tts_tupleDescriptor, &is_null));
}

void
read_segment(const Segment &segment, SegmentPass *pass, int most)
{
	/* Copying a twentieth of what is won costs a twentieth of the work that filled the segment. */
	static constexpr int64 kFew = 20;
	SegmentSet segments(AccessShareLock);
	Relation rel = segments.open(segment.number);
	int64 room = static_cast<int64>(RelationGetNumberOfBlocks(rel)) * BLCKSZ / kFew;
	IndexLookup lookup;
	start_by_id(&lookup, rel, segment, pass->next_id);
	pass->at_end = true;
	for (int n = 0; !pass->many && next_version(&lookup); n++)
	{
		bool dead = judge_version(lookup.tuple, lookup.buffer) == Verdict::kDead;
		int64 id = job_id_of(lookup);
		int64 bytes = lookup.tuple->t_len;
		unlock_version(&lookup);
		/* Stop between jobs, not between versions of one. */
		pass->at_end = n < most || id < pass->next_id;
		if (!pass->at_end)
			break;
		pass->next_id = id + 1;
		if (!dead)
		{
			pass->first_live = pass->first_live == 0 ? id : pass->first_live;
			pass->live_bytes += bytes;
			pass->many = pass->live_bytes > room;
		}
		CHECK_FOR_INTERRUPTS();
	}
	end_index_lookup(&lookup);
	segments.close();
}

/* ---- moving ---- */

struct Candidate
{
	int32 queue_id;
	Hint hint;
};

static int
collect_live(const Segment &from, int64 *next_id, Candidate *candidates, int most)
{
	SegmentSet segments(RowExclusiveLock);
	Relation rel = segments.open(from.number);
	IndexLookup lookup;
	int n = 0;
	bool at_end = true;
	start_by_id(&lookup, rel, from, *next_id);
	while (next_version(&lookup))
	{
		bool is_null;
		bool live = judge_version(lookup.tuple, lookup.buffer) == Verdict::kLive;
		Hint hint = hint_of(lookup.tuple, RelationGetDescr(rel), static_cast<uint16>(from.number));
		int32 queue_id =
			DatumGetInt32(heap_getattr(lookup.tuple, kJobQueueId, RelationGetDescr(rel), &is_null));
		unlock_version(&lookup);
		CHECK_FOR_INTERRUPTS();
		if (!live)
			continue;
		if (n == most)
		{
			*next_id = hint.key.job_id;
			at_end = false;
			break;
		}
		candidates[n++] = {queue_id, hint};
	}
	end_index_lookup(&lookup);
	segments.close();
	if (at_end)
		*next_id = 0;
	return n;
}

/* Whatever becomes of the row, at commit the lease ends and the job is filed where the row is then. */
static bool
move_row(SegmentSet &segments, const Candidate &candidate, const Segment &to)
{
	QueueRef ref;
	Lease *lease;
	VirtualTransactionId other;
	Hint hint = candidate.hint;
	/* A queue without a slot: its rows are read when it gets one. */
	if (!find_attached_queue(tables().database, candidate.queue_id, &ref))
		return false;
	reserve_hints(ref, tables().queue, 1);
	if (take_lease_to_end(ref, hint, LeaseEnd::kMoved, &lease, &other) != TakeResult::kTaken)
		return false;
	WriteResult result = move_job(segments, hint.place, hint.key.job_id, to, &hint);
	if (result != WriteResult::kGone)
		add_hint(ref, hint, false);
	return result == WriteResult::kDone && hint.place.segment == to.number;
}

int
move_rows(const Segment &from, const Segment &to, int64 *next_id, int most)
{
	auto *candidates = static_cast<Candidate *>(palloc(most * sizeof(Candidate)));
	int n = collect_live(from, next_id, candidates, most);
	SegmentSet segments(RowExclusiveLock);
	int moved = 0;
	for (int i = 0; i < n; i++)
		moved += move_row(segments, candidates[i], to);
	segments.close();
	stop_point("rotation-moved");
	return moved;
}

/* ---- truncating ---- */

/* Does this version forbid it? Under its buffer's lock. */
static Truncation
judge_remains(HeapTuple tuple, Buffer buffer, TransactionId since)
{
	HeapTupleHeader header = tuple->t_data;
	if (judge_version(tuple, buffer) != Verdict::kDead)
		return Truncation::kInhabited;
	TransactionId xmin = HeapTupleHeaderGetXmin(header);
	TransactionId xmax = header->t_infomask & HEAP_XMAX_INVALID
							 ? InvalidTransactionId
							 : HeapTupleHeaderGetUpdateXid(header);
	bool touched = (TransactionIdIsNormal(xmin) && TransactionIdFollowsOrEquals(xmin, since)) ||
				   (TransactionIdIsNormal(xmax) && TransactionIdFollowsOrEquals(xmax, since));
	return touched ? Truncation::kTouched : Truncation::kDone;
}

static Truncation
judge_page(Relation rel, Buffer buffer, TransactionId since)
{
	Truncation verdict = Truncation::kDone;
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	Page page = BufferGetPage(buffer);
	for (OffsetNumber i = FirstOffsetNumber;
		 i <= PageGetMaxOffsetNumber(page) && verdict != Truncation::kInhabited; i++)
	{
		ItemId item = PageGetItemId(page, i);
		if (!ItemIdIsNormal(item))
			continue;
		HeapTupleData tuple;
		tuple.t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
		tuple.t_len = ItemIdGetLength(item);
		tuple.t_tableOid = RelationGetRelid(rel);
		ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buffer), i);
		Truncation remains = judge_remains(&tuple, buffer, since);
		if (remains != Truncation::kDone)
			verdict = remains;
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return verdict;
}

/* Every page, with writers locked out. */
static Truncation
judge_segment(Relation rel, TransactionId since)
{
	Truncation verdict = Truncation::kDone;
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);
	for (BlockNumber block = 0; block < blocks && verdict != Truncation::kInhabited; block++)
	{
		CHECK_FOR_INTERRUPTS();
		Buffer buffer = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
		Truncation page = judge_page(rel, buffer, since);
		if (page != Truncation::kDone)
			verdict = page;
		ReleaseBuffer(buffer);
	}
	FreeAccessStrategy(strategy);
	return verdict;
}

static bool
lock_indexes(Oid relid)
{
	Relation rel = table_open(relid, NoLock);
	List *indexes = RelationGetIndexList(rel);
	bool locked = true;
	ListCell *cell;
	foreach (cell, indexes)
		locked = locked && ConditionalLockRelationOid(lfirst_oid(cell), AccessExclusiveLock);
	list_free(indexes);
	table_close(rel, NoLock);
	return locked;
}

/* All that TRUNCATE will lock: an autovacuum of the TOAST table alone would make it wait. */
static bool
lock_to_truncate(const Segment &segment)
{
	if (!ConditionalLockRelationOid(segment.heap, AccessExclusiveLock))
		return false;
	Relation rel = table_open(segment.heap, NoLock);
	Oid toast = rel->rd_rel->reltoastrelid;
	table_close(rel, NoLock);
	return lock_indexes(segment.heap) &&
		   (!OidIsValid(toast) ||
			(ConditionalLockRelationOid(toast, AccessExclusiveLock) && lock_indexes(toast)));
}

Truncation
truncate_segment(const Segment &segment, TransactionId since)
{
	/* Nobody has uncommitted writes in it then, nor a commit whose callback is to come. */
	if (!ConditionalLockRelationOid(segment.heap, ShareLock))
		return Truncation::kLocked;
	Relation rel = table_open(segment.heap, NoLock);
	Truncation verdict = judge_segment(rel, since);
	table_close(rel, NoLock);
	if (verdict != Truncation::kDone)
		return verdict;
	stop_point("rotation-verified");
	if (!lock_to_truncate(segment))
		return Truncation::kLocked;
	as_owner([&] { spi_run("TRUNCATE ONLY pgq_ext.job_%d", segment.number); });
	stop_point("rotation-truncated");
	return Truncation::kDone;
}

} // namespace pgq
