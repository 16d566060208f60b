/*
 * The end of a job's row. Every row ends in a function of this file, which also writes the record
 * and updates the counts. The caller has taken the job's lease (protocol: lease-before-row).
 */
#pragma once

#include "rows/record.h"
#include "rows/write.h"

namespace pgq {

enum class RowEnd : uint8
{
	kAcked,
	kDead, /* becomes a dead letter */
	kCancelled,
	kExpired, /* was not handed out before expires_at */
};

/* The columns of a dead letter that do not come from the job's row. */
struct Death
{
	int32 attempts; /* number of failed attempts */
	/*
	 * token of the last lease; negated if the lease was lost and its worker has not reported a
	 * failure
	 */
	int64 fence;
	const char *reason;
	bool has_error;
	Datum error;
};

/* The columns of a finished job that do not come from the job's row. */
struct Finish
{
	Records *records;
	const char *worker;	 /* the worker that had the job, or NULL */
	const Datum *result; /* jsonb, or NULL */
};

/* Return whether the queue keeps records of finished jobs. */
inline bool
keeps_finished(const QueueOptions &options)
{
	return options.keep_finished > 0;
}

/* Read the present options of the queue, and return whether it keeps records of finished jobs. */
bool queue_keeps_finished(const QueueRef &ref);

/*
 * End the row at `place`, or at the place to which the row was moved. ref: the queue of the lease.
 * death: set if `why` is kDead, otherwise NULL. finish: set if `why` is not kDead and
 * keeps_finished() is true, otherwise NULL. result: of an ack, for the children of the job; jsonb or
 * NULL. wait: whether to wait for other transactions that have locked the row. Without wait, raises
 * 55P03 if another transaction has locked a dead letter of that id. *deleted (unless NULL): the row
 * that was deleted, if `why` is not kDead; the caller keeps it until the records are written.
 */
WriteResult end_row(SegmentSet &segments, const QueueRef &ref, const Place &place, int64 job_id,
					RowEnd why, const Death *death, bool wait, const Finish *finish = nullptr,
					const Datum *result = nullptr, JobRow *deleted = nullptr);

/*
 * End the row of a waiting job, as cancelled or expired, with a record if the queue keeps finished
 * jobs. This transaction has locked the row and taken the lease, so the write waits for no other
 * transaction. Returns false if the job has no row any more.
 */
bool end_locked_row(SegmentSet &segments, const QueueRef &ref, const JobRow &row, RowEnd why);

/*
 * Check that pgq_ext.is_leased() is still the extension's own function: SQL statements of the
 * extension call this function with the owner's rights. Raises 55000 if not.
 */
void require_is_leased();

/*
 * End all rows of a queue by one SQL statement, for purge and drop. All that end_row() does for one
 * row must happen here for all rows. Call within as_owner(). end_waiting_rows() returns the number
 * of rows.
 */
uint64 end_waiting_rows(int32 queue_id); /* purge: skip rows for which is_leased() */
void end_all_rows(int32 queue_id);		 /* drop: with records and key periods */

} // namespace pgq
