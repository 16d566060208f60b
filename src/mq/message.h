/* A message as the type pgmq.message_record shows it. */
#pragma once

#include "catalog/column.h"
#include "engine/copies.h"
#include "rows/job.h"

namespace pgq {

/* Attributes of pgmq.message_record, in order. */
enum class MessageColumn
{
	kMsgId,
	kReadCt,
	kEnqueuedAt,
	kLastReadAt,
	kVt,
	kMessage,
	kHeaders,
	kColumns
};
inline constexpr int kMessageColumns = static_cast<int>(MessageColumn::kColumns);

/* The values of a message. Values of variable length are copies that are not toasted. */
extern const Column message_columns[kMessageColumns];

struct Message
{
	Datum values[kMessageColumns];
	bool nulls[kMessageColumns];

	/* Return the value; 0 for NULL. */
	Datum get(MessageColumn column) const
	{
		int i = static_cast<int>(column);
		return nulls[i] ? Datum{0} : values[i];
	}
	void set(MessageColumn column, Datum value)
	{
		values[static_cast<int>(column)] = value;
		nulls[static_cast<int>(column)] = false;
	}
};

/*
 * Return the message of a row whose job has no lease, or has had none when it was read. The values of
 * variable length may point into the row. The caller has locked the segment of the row.
 */
Message message_of(const JobRow &row);

/* Copy the values that may point into a row into that memory. */
void copy_values(Message *message, MemoryContext memory);

/* Set the columns of the message that its lease decides: read_ct, last_read_at and vt. */
void show_lease(Message *message, int32 attempt, TimestampTz read_at, TimestampTz end);

/*
 * Copy the lease of the message's job. Returns false if there is none, if this transaction ends it, or
 * if a transaction has taken it for a short use.
 */
bool copy_message_lease(int64 job_id, LeaseCopy *lease);

/*
 * Return the nearest time that a row of a job can have: from the year 2000 to a thousand years from
 * now. A message may have any time, also infinity, but a job may not.
 */
TimestampTz time_of_job(TimestampTz time);

/* Raise 23514 if a message cannot have been read that often. */
void check_read_count(int32 read_ct);

/* Return the fence that says that the message was last read at that time. */
int64 fence_of(TimestampTz last_read_at);

/* Return the time of the lease whose token is in the fence of a row; false: there was none. */
bool last_read_at(int64 fence, TimestampTz *time);

} // namespace pgq
