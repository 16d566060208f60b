#include "row_changes/changed_row.h"

#include <algorithm>

namespace pgq {

/* ---- reading ---- */

RowReader::RowReader(Tuplestorestate *rows, TupleDesc desc)
	: rows_(rows), slot_(MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple)), place_(0)
{
	if (rows_ == nullptr)
		return;
	place_ = tuplestore_alloc_read_pointer(rows_, EXEC_FLAG_REWIND);
	rewind();
}

void
RowReader::rewind()
{
	if (rows_ == nullptr)
		return;
	tuplestore_select_read_pointer(rows_, place_);
	tuplestore_rescan(rows_);
}

bool
RowReader::next()
{
	if (rows_ == nullptr)
		return false;
	tuplestore_select_read_pointer(rows_, place_);
	return tuplestore_gettupleslot(rows_, true, false, slot_);
}

/* ---- comparing ---- */

/*
 * Return whether both are the same value outside of the row, as in an UPDATE that does not change
 * the column.
 */
static bool
is_same_toast(Datum one, Datum two)
{
	const auto *a = reinterpret_cast<const char *>(DatumGetPointer(one));
	const auto *b = reinterpret_cast<const char *>(DatumGetPointer(two));
	return VARATT_IS_EXTERNAL_ONDISK(a) && VARATT_IS_EXTERNAL_ONDISK(b) &&
		   memcmp(a, b, VARSIZE_EXTERNAL(a)) == 0;
}

static bool
has_same_value(const WatchedColumn &column, TupleTableSlot *a, TupleTableSlot *b)
{
	bool nulls[2];
	Datum one = slot_getattr(a, column.number, &nulls[0]);
	Datum two = slot_getattr(b, column.number, &nulls[1]);
	if (nulls[0] || nulls[1])
		return nulls[0] == nulls[1];
	if (column.length == -1 && is_same_toast(one, two))
		return true;
	return datum_image_eq(one, two, column.by_value, column.length);
}

bool
has_same_key(const WatchedColumns &columns, TupleTableSlot *a, TupleTableSlot *b)
{
	return std::all_of(columns.list, columns.list + columns.n, [&](const WatchedColumn &column) {
		return !column.in_key || has_same_value(column, a, b);
	});
}

bool
is_unchanged(const WatchedColumns &columns, TupleTableSlot *a, TupleTableSlot *b)
{
	return std::all_of(columns.list, columns.list + columns.n, [&](const WatchedColumn &column) {
		return (!column.in_image && !columns.coalescing) || has_same_value(column, a, b);
	});
}

static uint64
hash_of_row_key(const WatchedColumns &columns, TupleTableSlot *row)
{
	uint64 hash = 0;
	for (int i = 0; i < columns.n; i++)
	{
		const WatchedColumn &column = columns.list[i];
		if (!column.in_key)
			continue;
		bool is_null;
		Datum value = slot_getattr(row, column.number, &is_null);
		uint32 part = is_null ? 0 : datum_image_hash(value, column.by_value, column.length);
		hash = hash_combine64(hash, part);
	}
	return hash;
}

/* ---- keys that occur several times ---- */

namespace {

struct KeyCount
{
	uint64 hash; /* key of the hash table */
	uint32 old_rows;
	uint32 new_rows;
};

/*
 * Which keys several old or several new rows have, by the hashes of the keys. Two keys may have one
 * hash.
 */
class RepeatedKeys
{
public:
	void count(const WatchedColumns &columns, RowReader *rows, uint32 KeyCount::*counter);
	bool has_key_of(const WatchedColumns &columns, TupleTableSlot *row) const;

private:
	HTAB *counts_ = nullptr; /* NULL: no key is repeated */
};

} // namespace

void
RepeatedKeys::count(const WatchedColumns &columns, RowReader *rows, uint32 KeyCount::*counter)
{
	if (counts_ == nullptr)
	{
		HASHCTL control{};
		control.keysize = sizeof(uint64);
		control.entrysize = sizeof(KeyCount);
		control.hcxt = CurrentMemoryContext;
		counts_ =
			hash_create("pgq_ext keys", 1024, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	while (rows->next())
	{
		bool found;
		uint64 hash = hash_of_row_key(columns, rows->slot());
		auto *key = static_cast<KeyCount *>(hash_search(counts_, &hash, HASH_ENTER, &found));
		if (!found)
			key->old_rows = key->new_rows = 0;
		key->*counter += 1;
	}
	rows->rewind();
}

bool
RepeatedKeys::has_key_of(const WatchedColumns &columns, TupleTableSlot *row) const
{
	if (counts_ == nullptr)
		return false;
	uint64 hash = hash_of_row_key(columns, row);
	const auto *key =
		static_cast<const KeyCount *>(hash_search(counts_, &hash, HASH_FIND, nullptr));
	return key != nullptr && (key->old_rows > 1 || key->new_rows > 1);
}

/* ---- rows that wait for their other version ---- */

namespace {

struct PendingRow
{
	uint64 hash; /* of the key */
	MinimalTuple tuple;
	bool is_old;
	bool paired;
	size_t partner; /* of a new row that is paired: the place of the old row */
};

/* Rows whose other version was not read at the same time. */
class PendingRows
{
public:
	PendingRows(const WatchedColumns &columns, TupleDesc desc)
		: columns_(columns),
		  a_(MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple)),
		  b_(MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple))
	{}

	void add(TupleTableSlot *row, bool is_old);
	void pair();
	void visit(const ChangeVisitor &visit);

private:
	bool is_same_key_at(size_t i, size_t j);
	void pair_run(size_t *first, size_t *last);
	void pair_same(const size_t *first, const size_t *last);

	const WatchedColumns &columns_;
	TupleTableSlot *a_;
	TupleTableSlot *b_;
	PendingRow *rows_ = nullptr;
	size_t n_ = 0;
	size_t room_ = 0;
};

} // namespace

void
PendingRows::add(TupleTableSlot *row, bool is_old)
{
	if (n_ == room_)
	{
		room_ = Max(size_t{64}, 2 * room_);
		rows_ = static_cast<PendingRow *>(
			rows_ == nullptr ? palloc_extended(room_ * sizeof(PendingRow), MCXT_ALLOC_HUGE)
							 : repalloc_huge(rows_, room_ * sizeof(PendingRow)));
	}
	rows_[n_++] = {hash_of_row_key(columns_, row), ExecCopySlotMinimalTuple(row), is_old, false, 0};
}

bool
PendingRows::is_same_key_at(size_t i, size_t j)
{
	ExecStoreMinimalTuple(rows_[i].tuple, a_, false);
	ExecStoreMinimalTuple(rows_[j].tuple, b_, false);
	return has_same_key(columns_, a_, b_);
}

/*
 * Pair rows that all have the same key: only one old row and one new row belong together for
 * certain.
 */
void
PendingRows::pair_same(const size_t *first, const size_t *last)
{
	if (last - first != 2 || rows_[first[0]].is_old == rows_[first[1]].is_old)
		return;
	bool old_first = rows_[first[0]].is_old;
	rows_[first[0]].paired = rows_[first[1]].paired = true;
	rows_[first[old_first ? 1 : 0]].partner = first[old_first ? 0 : 1];
}

/*
 * Pair rows whose keys have the same hash: take the rows with the key of the first row out, and
 * repeat.
 */
void
PendingRows::pair_run(size_t *first, size_t *last)
{
	while (first != last)
	{
		CHECK_FOR_INTERRUPTS();
		size_t one = *first;
		size_t *same_end =
			std::partition(first, last, [&](size_t i) { return is_same_key_at(one, i); });
		pair_same(first, same_end);
		first = same_end;
	}
}

void
PendingRows::pair()
{
	auto *order =
		static_cast<size_t *>(palloc_extended((n_ + 1) * sizeof(size_t), MCXT_ALLOC_HUGE));
	for (size_t i = 0; i < n_; i++)
		order[i] = i;
	std::sort(order, order + n_, [&](size_t i, size_t j) { return rows_[i].hash < rows_[j].hash; });
	for (size_t i = 0; i < n_;)
	{
		size_t end = i;
		while (end < n_ && rows_[order[end]].hash == rows_[order[i]].hash)
			end++;
		pair_run(order + i, order + end);
		i = end;
	}
	pfree(order);
}

/* Visit deletions first, so that a key is free again before another row takes it. */
void
PendingRows::visit(const ChangeVisitor &visit)
{
	for (size_t i = 0; i < n_; i++)
		if (rows_[i].is_old && !rows_[i].paired)
			visit(ChangeOp::kDelete, ExecStoreMinimalTuple(rows_[i].tuple, a_, false), nullptr);
	for (size_t i = 0; i < n_; i++)
	{
		if (rows_[i].is_old)
			continue;
		TupleTableSlot *row = ExecStoreMinimalTuple(rows_[i].tuple, b_, false);
		if (!rows_[i].paired)
		{
			visit(ChangeOp::kInsert, nullptr, row);
			continue;
		}
		TupleTableSlot *before = ExecStoreMinimalTuple(rows_[rows_[i].partner].tuple, a_, false);
		if (!is_unchanged(columns_, before, row))
			visit(ChangeOp::kUpdate, before, row);
	}
}

/* ---- updates ---- */

/* The rows of a table without a key: the old row of a change is not known. */
static void
visit_without_key(const WatchedColumns &columns, RowReader *old_rows, RowReader *new_rows,
				  const ChangeVisitor &visit)
{
	while (new_rows->next())
		if (!old_rows->next() || !is_unchanged(columns, old_rows->slot(), new_rows->slot()))
			visit(ChangeOp::kUpdate, nullptr, new_rows->slot());
}

/*
 * The server usually passes the old and the new version of a row at the same place of the two
 * tables. So read both tables together, and compare the keys. Only rows without their other version
 * at the same place are kept in memory, and rows of a key that occurs several times.
 */
static void
visit_with_key(const WatchedColumns &columns, RowReader *old_rows, RowReader *new_rows,
			   const ChangeVisitor &visit)
{
	RepeatedKeys repeated;
	PendingRows pending(columns, old_rows->slot()->tts_tupleDescriptor);
	/* Find keys that occur several times, if that is possible. */
	if (!columns.key_is_unique)
	{
		repeated.count(columns, old_rows, &KeyCount::old_rows);
		repeated.count(columns, new_rows, &KeyCount::new_rows);
	}
	/* Visit the rows whose versions stand at one place, and keep the others. */
	for (;;)
	{
		bool has_old = old_rows->next();
		bool has_new = new_rows->next();
		if (!has_old && !has_new)
			break;
		if (has_old && has_new && has_same_key(columns, old_rows->slot(), new_rows->slot()) &&
			!repeated.has_key_of(columns, old_rows->slot()))
		{
			if (!is_unchanged(columns, old_rows->slot(), new_rows->slot()))
				visit(ChangeOp::kUpdate, old_rows->slot(), new_rows->slot());
			continue;
		}
		if (has_old)
			pending.add(old_rows->slot(), true);
		if (has_new)
			pending.add(new_rows->slot(), false);
	}
	/* Pair those that were kept. */
	pending.pair();
	pending.visit(visit);
}

void
visit_updates(const WatchedColumns &columns, RowReader *old_rows, RowReader *new_rows,
			  const ChangeVisitor &visit)
{
	if (columns.has_key)
		visit_with_key(columns, old_rows, new_rows, visit);
	else
		visit_without_key(columns, old_rows, new_rows, visit);
}

} // namespace pgq
