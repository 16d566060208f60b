#include "ring/survey.h"

#include "ring/segment.h"
#include "rows/visibility.h"

namespace pgq {

Buffer
lock_page(Relation rel, BlockNumber block, BufferAccessStrategy strategy)
{
	CHECK_FOR_INTERRUPTS();
	Buffer buffer = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	return buffer;
}

int64
version_bytes(HeapTuple tuple, TupleDesc desc)
{
	int64 bytes = tuple->t_len;
	if (!HeapTupleHasExternal(tuple))
		return bytes;
	for (AttrNumber column = 1; column <= desc->natts; column++)
	{
		bool is_null;
		Datum value = heap_getattr(tuple, column, desc, &is_null);
		if (is_null || TupleDescAttr(desc, column - 1)->attlen != -1 ||
			!VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(value)))
			continue;
		varatt_external pointer;
		VARATT_EXTERNAL_GET_POINTER(pointer, DatumGetPointer(value));
		bytes += VARATT_EXTERNAL_GET_EXTSIZE(pointer);
	}
	return bytes;
}

/*
 * Return whether the version counts as live, so that it must be moved or kept. A version that
 * another transaction is changing or has locked counts as live. With `expiry`, a row past its time
 * does not count, and `pass` notes how long the other rows have been kept, and must still be kept.
 */
static bool
is_kept(const Expiry *expiry, HeapTuple tuple, Buffer buffer, TupleDesc desc, SegmentPass *pass)
{
	int64 age;
	Visibility visibility = visibility_of(tuple, buffer);
	if (visibility != Visibility::kLive || expiry == nullptr)
		return visibility != Visibility::kDead;
	int64 left = time_left(*expiry, tuple, desc, &age);
	if (left <= 0)
		return false;
	pass->kept = Max(pass->kept, age);
	pass->left = Max(pass->left, left);
	return true;
}

/* Count the line pointers of pruned rows: dead rows that VACUUM has not removed yet. */
static int
dead_pointers(Buffer buffer)
{
	Page page = BufferGetPage(buffer);
	int dead = 0;
	for (OffsetNumber i = FirstOffsetNumber; i <= PageGetMaxOffsetNumber(page); i++)
		dead += ItemIdIsDead(PageGetItemId(page, i));
	return dead;
}

static void
survey_page(Relation rel, Buffer buffer, const Expiry *expiry, int64 few, SegmentPass *pass)
{
	pass->dead += dead_pointers(buffer);
	visit_page(rel, buffer, FirstOffsetNumber, [&](HeapTuple tuple) {
		if (!is_kept(expiry, tuple, buffer, RelationGetDescr(rel), pass))
		{
			pass->dead++;
			return true;
		}
		pass->first_live = Min(pass->first_live, pass->next);
		pass->live_bytes += version_bytes(tuple, RelationGetDescr(rel));
		pass->many = pass->live_bytes > few;
		return !pass->many;
	});
}

void
survey_segment(const Segment &segment, const Expiry *expiry, int64 few, SegmentPass *pass)
{
	static constexpr BlockNumber kReadAtOnce = 256;
	Relation rel = table_open(segment.heap, AccessShareLock);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	BlockNumber end = RelationGetNumberOfBlocks(rel);
	for (BlockNumber n = 0; n < kReadAtOnce && pass->next < end && !pass->many; n++, pass->next++)
	{
		Buffer buffer = lock_page(rel, pass->next, strategy);
		survey_page(rel, buffer, expiry, few, pass);
		UnlockReleaseBuffer(buffer);
	}
	pass->at_end = pass->next >= end;
	FreeAccessStrategy(strategy);
	table_close(rel, AccessShareLock);
}

static void
sample_page(Relation rel, BlockNumber block, const Expiry *expiry, Sample *sample)
{
	Buffer buffer = lock_page(rel, block, nullptr);
	visit_page(rel, buffer, FirstOffsetNumber, [&](HeapTuple tuple) {
		if (visibility_of(tuple, buffer) == Visibility::kLive)
			++*(is_past(expiry, tuple, RelationGetDescr(rel)) ? &sample->past : &sample->kept);
		return true;
	});
	UnlockReleaseBuffer(buffer);
}

Sample
sample_segment(const Expiry *expiry, const Segment &segment, BlockNumber *next)
{
	static constexpr BlockNumber kPages = 16;
	Sample sample = {};
	Relation rel = table_open(segment.heap, AccessShareLock);
	BlockNumber end = expiry == nullptr ? 0 : RelationGetNumberOfBlocks(rel);
	for (BlockNumber n = 0; n < Min(kPages, end); n++)
	{
		*next = *next < end ? *next : 0;
		sample_page(rel, (*next)++, expiry, &sample);
	}
	table_close(rel, AccessShareLock);
	return sample;
}

} // namespace pgq
