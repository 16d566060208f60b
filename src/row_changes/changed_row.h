/*
 * The changes of a statement. The server passes the old and the new rows in two tables, and says
 * nothing about which belong together. They are paired by the key, never by their place: a row can
 * be missing in the table of the new rows (protocol: paired-by-key).
 */
#pragma once

#include "row_changes/row_json.h"

namespace pgq {

/* The rows of a transition table. Each reader has its own read pointer. */
class RowReader
{
public:
	/*
	 * rows: NULL for a table without rows; desc: without reference counts, as CreateTupleDescCopy()
	 * returns it
	 */
	RowReader(Tuplestorestate *rows, TupleDesc desc);

	/* Read the next row into slot(). Returns false after the last row. */
	bool next();
	/* Begin again at the first row. */
	void rewind();
	TupleTableSlot *slot() const { return slot_; }

private:
	Tuplestorestate *rows_;
	TupleTableSlot *slot_;
	int place_;
};

/* Return whether the old and the new row have the same key. */
bool has_same_key(const WatchedColumns &columns, TupleTableSlot *a, TupleTableSlot *b);

/*
 * Return whether the rows are the same for the watch: in the columns of new and old; for a
 * coalescing watch in all columns. Values are compared as bytes, as record_image_eq() does, so no
 * code of a user runs.
 */
bool is_unchanged(const WatchedColumns &columns, TupleTableSlot *a, TupleTableSlot *b);

/* What a watch does with a change. A row that the change does not have is NULL. */
struct ChangeVisitor
{
	void (*visit)(void *context, ChangeOp op, TupleTableSlot *old_row, TupleTableSlot *new_row);
	void *context;

	void operator()(ChangeOp op, TupleTableSlot *old_row, TupleTableSlot *new_row) const
	{
		visit(context, op, old_row, new_row);
	}
};

/*
 * Visit the changes of an UPDATE, except rows that are unchanged. If the table has no key, the old
 * row of a change is not known. A row whose key was changed is a DELETE and an INSERT. Rows that
 * cannot be paired because several have the same key are DELETEs and INSERTs, too.
 */
void visit_updates(const WatchedColumns &columns, RowReader *old_rows, RowReader *new_rows,
				   const ChangeVisitor &visit);

} // namespace pgq
