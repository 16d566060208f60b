/*
 * Records: rows of the rings beside that of jobs, inserted without the executor. A call gathers those that it has to
 * write, and writes them at its end, the rows page by page.
 */
#pragma once

#include "rows/job.h"

namespace pgq {

/* Values of a record, in the memory of a Records. What is by reference has to be there when it is written. */
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
	/* As the job's row has it; that is being deleted, with what is toasted of it. */
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
 * Records of one call that have not been written yet. Whoever adds some writes them before his statement returns, and
 * in the subtransaction in which he has ended what they tell of: they are there together, or undone together. Until
 * the first is added it costs nothing.
 */
class Records
{
public:
	/* make(record) sets its values, but that of the column `segment`: the one that is current when it is written. */
	template <typename ColumnName, typename Make>
	void add(RingName ring, ColumnName segment, Make make)
	{
		with_memory([&] {
			Pending &pending = append(ring, segment);
			NewRecord<ColumnName> record = {pending.values, pending.nulls};
			make(record);
		});
	}

	/* What body allocates is kept until the records are written, as in make() of add(). */
	template <typename Body> void with_memory(Body body)
	{
		MemoryContext before = MemoryContextSwitchTo(memory());
		body();
		MemoryContextSwitchTo(before);
	}

	/* All that have been added, ring by ring in the order of their segments. */
	void write();

	/* Between two jobs: they shall not take too much memory. */
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
		int16 segment; /* the column of that name */
	};

	MemoryContext memory();
	Pending &append(RingName ring, int16 segment);
	static void write_list(RingName ring, const List &list);
	void write_lists();

	MemoryContext memory_ = nullptr;
	bool roomy_ = false; /* memory_ begins with kRoom, which is used again and again */
	int n_ = 0;
	List list_[kRings] = {};
};

} // namespace pgq
