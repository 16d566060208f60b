/*
 * Rows as JSON. Values look the same whatever the settings of the session are
 * (set_output_settings()). Values are converted with the rights of the owner of the table
 * (pg/scope.h), because the conversion may call a cast that a user has made.
 */
#pragma once

#include "row_changes/watch.h"

namespace pgq {

enum class ChangeOp : uint8
{
	kInsert,
	kUpdate,
	kDelete,
};

/*
 * Set the settings on which the text of values depends. The caller's nest level of settings undoes
 * that.
 */
void set_output_settings();

/* Converts the rows of one statement. All memory is of the context that is current in the call. */
class RowJson
{
public:
	explicit RowJson(const Watch &watch);

	/* Return the payload of a job. old_row, new_row: NULL if the job does not have that row. */
	Jsonb *payload(ChangeOp op, TupleTableSlot *old_row, TupleTableSlot *new_row);

	/* Return the payload of a job of a coalescing watch. */
	Jsonb *payload_of_key(TupleTableSlot *row);

private:
	JsonbValue object_of(TupleTableSlot *row, bool WatchedColumn::*wanted);
	JsonbValue value_of_column(int i, Datum value);
	JsonbValue other_value(int i, Datum value);

	const Watch &watch_;
	MemoryContext memory_;
	FmgrInfo *to_jsonb_; /* by column; fn_oid is invalid until it is used */
};

} // namespace pgq
