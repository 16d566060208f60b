#include "rows/record.h"

#include "catalog/shape.h"
#include "rows/index.h"
#include "rows/tuple.h"

#include <algorithm>

namespace pgq {

MemoryContext
Records::memory()
{
	if (memory_ == nullptr)
		memory_ =
			AllocSetContextCreate(CurrentMemoryContext, "pgq_ext records", ALLOCSET_DEFAULT_SIZES);
	return memory_;
}

/* Memory, in bytes, for the records of about a hundred jobs. */
static constexpr Size kRoom = 256 * 1024;

Records::Pending &
Records::append(RingName ring, int16 segment)
{
	List &list = list_[ring];
	if (list.n == list.size)
	{
		int size = Max(2 * list.size, 4);
		auto *records = static_cast<Pending *>(palloc(size * sizeof(Pending)));
		if (list.n > 0)
			memcpy(records, list.records, list.n * sizeof(Pending));
		list.records = records;
		list.size = size;
	}
	list.segment = segment;
	n_++;
	int columns = rings[ring].n_columns;
	Pending &record = list.records[list.n++];
	record.values = static_cast<Datum *>(palloc(columns * (sizeof(Datum) + sizeof(bool))));
	record.nulls = reinterpret_cast<bool *>(record.values + columns);
	memset(record.nulls, true, columns * sizeof(bool));
	return record;
}

/*
 * Write the records of one ring into its current segment. Before the lock is taken, another segment
 * may become the current one; that does no harm (README.md of ring/).
 */
void
Records::write_list(RingName ring, const List &list)
{
	const Segment &current = look_at_tables().current(ring);
	Relation rel = open_segment(current, RowExclusiveLock);
	TupleFormer former(rel);
	auto *tuples = static_cast<HeapTuple *>(palloc(list.n * sizeof(HeapTuple)));
	for (int i = 0; i < list.n; i++)
	{
		Pending &record = list.records[i];
		record.values[list.segment - 1] = Int16GetDatum(static_cast<int16>(current.number));
		record.nulls[list.segment - 1] = false;
		tuples[i] = former.form(record.values, record.nulls, rings[ring].n_columns);
	}
	insert_tuples(rel, tuples, list.n);
	insert_record_index_entries(rel, current.number, tuples, list.n);
	table_close(rel, NoLock);
}

void
Records::write_lists()
{
	with_memory([&] {
		for (RingName ring : all_rings)
			if (list_[ring].n > 0)
				write_list(ring, list_[ring]);
	});
}

void
Records::write()
{
	if (memory_ == nullptr)
		return;
	write_lists();
	MemoryContextDelete(memory_);
	*this = Records();
}

void
Records::write_if_many()
{
	/*
	 * The number of records of about a hundred jobs, each with a record of its attempt and a record
	 * of its end. A batch of this size fills whole pages. A larger batch would only exceed the
	 * CPU's cache.
	 */
	static constexpr int kMany = 200;
	if (n_ < kMany && (n_ == 0 || MemoryContextMemAllocated(memory_, false) <= 2 * kRoom))
		return;
	/*
	 * More records will follow, so keep one block of memory and reuse it: freeing and allocating
	 * the block each time would cost as much as the work on the records.
	 */
	if (!roomy_)
	{
		write();
		memory_ = AllocSetContextCreate(CurrentMemoryContext, "pgq_ext records", 0, kRoom, kRoom);
		roomy_ = true;
		return;
	}
	write_lists();
	MemoryContextReset(memory_);
	n_ = 0;
	std::fill(std::begin(list_), std::end(list_), List{});
}

} // namespace pgq
