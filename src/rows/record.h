/*
 * Records: rows of all rings except the ring of jobs, inserted without the executor. A call
 * collects the records of the jobs that it ends, and writes these records at its end, page by page.
 */
#pragma once

#include "rows/job.h"

namespace pgq {

/*
 * The values of a record, in the memory of a Records. Values passed by reference must stay valid
 * until the record is written.
 */
template <typename ColumnName> struct NewRecord
{
	Datum *values;
	bool *nulls;

	void set(ColumnName column, Datum value)
	{
		values[column - 1] = value;
		nulls[column - 1] = false;
	}
	void set_text(ColumnName column, const char *value) { set(column, CStringGetTextDatum(value)); }
	/*
	 * Copy a column of the job's row. A toasted value is copied in full, since the row and its
	 * TOAST data are being deleted.
	 */
	void copy(ColumnName to, const JobRow &row, JobColumn from)
	{
		if (row.is_null(from))
			return;
		bool by_reference =
			job_columns[from - 1].type == kText || job_columns[from - 1].type == kJsonb;
		set(to, by_reference ? detached(row.value(from)) : row.value(from));
	}

private:
	static Datum detached(Datum value)
	{
		auto *bytes = reinterpret_cast<struct varlena *>(DatumGetPointer(value));
		return VARATT_IS_EXTERNAL(bytes) ? PointerGetDatum(detoast_external_attr(bytes)) : value;
	}
};

/*
 * The records of one call that are not written yet. The function that creates a Records must call
 * write() before the SQL statement returns, in the subtransaction that has ended the jobs. So the
 * end of a job and its record commit or roll back together. An empty Records costs nothing.
 */
class Records
{
public:
	/*
	 * Add a record. make(record) sets the values of the record; write() sets the column `segment`.
	 */
	template <typename ColumnName, typename Make>
	void add(RingName ring, ColumnName segment, Make make)
	{
		with_memory([&] {
			Pending &pending = append(ring, segment);
			NewRecord<ColumnName> record = {pending.values, pending.nulls};
			make(record);
		});
	}

	/*
	 * Run body() with the memory context that is kept until the records are written. add() runs
	 * make() in the same context.
	 */
	template <typename Body> void with_memory(Body body)
	{
		MemoryContext before = MemoryContextSwitchTo(memory());
		body();
		MemoryContextSwitchTo(before);
	}

	/*
	 * Write all records, ring by ring, in the order in which segments of different rings must be
	 * locked.
	 */
	void write();

	/*
	 * Write the records if there are many, so that memory stays bounded. To be called only between
	 * two jobs, since the memory of with_memory() is freed.
	 */
	void write_if_many();

private:
	struct Pending
	{
		Datum *values;
		bool *nulls;
	};
	struct List
	{
		Pending *records;
		int n;
		int size;
		int16 segment; /* number of the column `segment` */
	};

	MemoryContext memory();
	Pending &append(RingName ring, int16 segment);
	static void write_list(RingName ring, const List &list);
	void write_lists();

	MemoryContext memory_ = nullptr;
	bool roomy_ = false; /* memory_ starts with a block of kRoom bytes, which a reset keeps */
	int n_ = 0;
	List list_[kRings] = {};
};

} // namespace pgq
