/*
 * The rows of a claim that a scan (claim_scan.h) returns: only some columns, in memory up to
 * work_mem, further rows in a tuplestore.
 */
#pragma once

#include "api/claim_call.h"

namespace pgq {

class ClaimRows
{
public:
	/*
	 * columns: a ClaimedColumn for each of the n columns of a row. memory: where the rows are kept.
	 */
	void init(const int *columns, int n, TupleDesc desc, MemoryContext memory);

	/* Forget the rows, and keep the next ones in that memory. */
	void begin(MemoryContext memory);

	/* The receiver of a claim: ClaimReceiver. */
	ClaimReceiver receiver() { return {give_row, clear_rows, end_rows, this, memory_}; }

	/*
	 * Store the next or the previous row in the slot. Returns false, with an empty slot, behind the
	 * last row or before the first one.
	 */
	bool next(bool forward, TupleTableSlot *slot);

	/* Go to the place before the first row. */
	void rewind();

	/* Free the tuplestore, which does not end with the memory context. */
	void end();

private:
	struct Values
	{
		Datum *values;
		bool *nulls;
	};

	static void give_row(void *rows, const QueueRef &ref, const QueueOptions &options,
						 const JobRow &row, const Ready &ready);
	static void clear_rows(void *rows);
	static void end_rows(void *rows, const Ready *ready, const HandedOut &out);

	Values row(int i) const { return {values_ + i * n_columns_, nulls_ + i * n_columns_}; }
	Values new_row();
	void make_room();
	void put(const ClaimedJob &job);
	Datum copy(Datum value);
	void spill(Values row);
	void seek(int i);
	void load(int i, TupleTableSlot *slot);

	const int *columns_; /* ClaimedColumn of each column */
	int n_columns_;
	int expires_at_; /* number of the column that shows the end of the lease; -1: no column does */
	TupleDesc desc_;
	MemoryContext memory_;

	Datum *values_; /* the values of the rows in memory, one row after the other */
	bool *nulls_;
	int room_;			 /* number of rows for which `values_` has room */
	int in_memory_;		 /* number of rows in memory */
	int rows_;			 /* number of all rows */
	Size bytes_;		 /* size of the values of variable length in memory */
	const Ready *ready_; /* the Ready of each row, from which the end of its lease is read */
	int at_;			 /* number of the row that next() has returned; -1: before the first one */
	Tuplestorestate *spilled_;	   /* rows for which work_mem had no room; NULL: none */
	TupleTableSlot *spilled_slot_; /* has the spilled row before spilled_at_ */
	int spilled_at_;			   /* number of the spilled row that is read next */
};

} // namespace pgq
