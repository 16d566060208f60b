/*
 * Records: rows of the rings beside that of jobs, inserted without the executor.
 */
#pragma once

#include "rows/job.h"

namespace pgq {

/* A row to insert. */
template <typename ColumnName, int columns> struct NewRecord
{
	Datum values[columns];
	bool nulls[columns];

	NewRecord() { memset(nulls, true, sizeof(nulls)); }

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

/* Into the current segment, whose number is the value of the column `segment`. Values behind the last that is set are NULL. */
void insert_record(RingName ring, Datum *values, bool *nulls, int n, int16 segment);

template <typename ColumnName, int columns>
inline void
insert_record(RingName ring, NewRecord<ColumnName, columns> &record, ColumnName segment)
{
	insert_record(ring, record.values, record.nulls, columns, segment);
}

/* What body allocates is gone after it: a call can write thousands of records. */
template <typename Body>
inline void
with_scratch_memory(Body body)
{
	MemoryContext scratch =
		AllocSetContextCreate(CurrentMemoryContext, "pgq_ext record", ALLOCSET_DEFAULT_SIZES);
	MemoryContext before = MemoryContextSwitchTo(scratch);
	body();
	MemoryContextSwitchTo(before);
	MemoryContextDelete(scratch);
}

} // namespace pgq
