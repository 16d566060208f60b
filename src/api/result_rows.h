/*
 * The rows that a set-returning function returns, set column by column:
 *
 *     enum class Column { kName, kSize, kColumns };
 *     ResultRows rows(fcinfo);
 *     ResultRow<Column> row;
 *     row.set(Column::kName, "a");
 *     rows.put(row);
 *
 * A column that is not set is NULL.
 */
#pragma once

#include "catalog/column.h"
#include "pg/pg.h"

#include <type_traits>

namespace pgq {

template <typename Column> class ResultRow
{
public:
	ResultRow() { memset(nulls_, true, sizeof(nulls_)); }

	void set_datum(Column column, Datum value)
	{
		values_[static_cast<int>(column)] = value;
		nulls_[static_cast<int>(column)] = false;
	}
	void set(Column column, bool value) { set_datum(column, BoolGetDatum(value)); }
	void set(Column column, int32 value) { set_datum(column, Int32GetDatum(value)); }
	void set(Column column, Oid value) { set_datum(column, ObjectIdGetDatum(value)); }
	/* also used for TimestampTz, which is an int64 */
	void set(Column column, int64 value) { set_datum(column, Int64GetDatum(value)); }
	void set(Column column, uint64 value) { set(column, static_cast<int64>(value)); }
	void set(Column column, double value) { set_datum(column, Float8GetDatum(value)); }
	void set(Column column, const char *text) { set_datum(column, CStringGetTextDatum(text)); }

	template <typename Value> void set_if(bool known, Column column, Value value)
	{
		if (known)
			set(column, value);
	}

private:
	friend class ResultRows;
	static constexpr int kColumns = static_cast<int>(Column::kColumns);

	Datum values_[kColumns] = {};
	bool nulls_[kColumns];
};

class ResultRows
{
public:
	/* Begin to collect the rows of a set-returning function. */
	explicit ResultRows(FunctionCallInfo fcinfo)
		: info_(reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo))
	{
		if (info_ != nullptr && IsA(info_, ReturnSetInfo) &&
			(info_->allowedModes & SFRM_Materialize) != 0 && info_->expectedDesc != nullptr)
		{
			/*
			 * Do what InitMaterializedSRF() does, but leave setDesc NULL: the rows have the
			 * expected type, so the server need not compare a copy of its descriptor.
			 */
			info_->returnMode = SFRM_Materialize;
			info_->setResult = begin_rows();
			desc_ = info_->expectedDesc;
			return;
		}
		/*
		 * If the caller accepts no rows, or has not said which type they have, this call raises the
		 * error.
		 */
		InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
		desc_ = info_->setDesc;
	}

	/*
	 * Begin to collect rows of the type pgq_ext.NAME. Raises 55000 if the type does not begin with
	 * these columns.
	 */
	template <int n>
	ResultRows(FunctionCallInfo fcinfo, const char *type, const pgq::Column (&columns)[n])
		: ResultRows(fcinfo)
	{
		check_row_type(desc_, type, columns, n);
	}

	template <typename Column> void put(ResultRow<Column> &row)
	{
		put_values(row.values_, row.nulls_, ResultRow<Column>::kColumns);
	}

	/* Add a row of n columns; further columns of the row type are NULL. */
	void put_values(Datum *values, bool *nulls, int n)
	{
		if (likely(desc_->natts == n))
			tuplestore_putvalues(info_->setResult, desc_, values, nulls);
		else
			put_longer(values, nulls, n);
	}

	/* Add a row of a function that returns one column. */
	void put(Datum value)
	{
		bool is_null = false;
		tuplestore_putvalues(info_->setResult, desc_, &value, &is_null);
	}

	void clear() { tuplestore_clear(info_->setResult); }

	/*
	 * Remove the rows for which is_kept(number, values) returns false. Rows are numbered in the
	 * order of the put() calls. is_kept() may change the values.
	 */
	template <typename Keep> void keep(Keep is_kept)
	{
		Tuplestorestate *before = info_->setResult;
		TupleTableSlot *row = MakeSingleTupleTableSlot(desc_, &TTSOpsMinimalTuple);
		info_->setResult = begin_rows();
		for (int i = 0; tuplestore_gettupleslot(before, true, false, row); i++)
		{
			slot_getallattrs(row);
			if (is_kept(i, row->tts_values))
				tuplestore_putvalues(info_->setResult, desc_, row->tts_values, row->tts_isnull);
		}
		ExecDropSingleTupleTableSlot(row);
		tuplestore_end(before);
	}

private:
	Tuplestorestate *begin_rows()
	{
		MemoryContext caller = MemoryContextSwitchTo(info_->econtext->ecxt_per_query_memory);
		bool random = (info_->allowedModes & SFRM_Materialize_Random) != 0;
		Tuplestorestate *rows = tuplestore_begin_heap(random, false, work_mem);
		MemoryContextSwitchTo(caller);
		return rows;
	}
	void put_longer(const Datum *values, const bool *nulls, int n);

	ReturnSetInfo *info_;
	TupleDesc desc_; /* the type of the rows */
};

static_assert(std::is_trivially_destructible_v<ResultRows>);

} // namespace pgq
