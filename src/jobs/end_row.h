/*
 * How the row of a job ends: the only ways there are. What must happen when it does, a key that
 * is free again, a record that is written, has its place here. The job's lease was taken before
 * (protocol: lease-before-row).
 */
#pragma once

#include "rows/record.h"
#include "rows/write.h"

namespace pgq {

enum class RowEnd : uint8
{
	kAcked,
	kDead, /* it becomes a dead letter */
	kCancelled,
	kExpired, /* its time was over before somebody had it */
};

/* What is written to a dead letter beside what the job's row says. */
struct Death
{
	int32 attempts; /* that have failed */
	int64 fence;	/* token of the last one's lease; negative: it was lost */
	const char *reason;
	bool has_error;
	Datum error;
};

/* What is written of a job that ends otherwise, beside what its row says. */
struct Finish
{
	Records *records;
	const char *worker;	 /* who had it, or NULL */
	const Datum *result; /* jsonb, or NULL */
};

/* Is it to be written? */
inline bool
keeps_finished(const QueueOptions &options)
{
	return options.keep_finished > 0;
}

/*
 * The row ends, at that place or where it has moved to. ref: the queue of its lease. death: of kDead, otherwise NULL.
 * finish: of others, if it is kept (keeps_finished()); otherwise NULL. wait: for
 * whoever is at the row. Error 55P03, only without wait, if somebody is at a dead letter of that id.
 */
WriteResult end_row(SegmentSet &segments, const QueueRef &ref, const Place &place, int64 job_id,
					RowEnd why, const Death *death, bool wait, const Finish *finish = nullptr);

/* Statements ask pgq_ext.is_leased(), as owner: error 55000 if that is not the extension's. */
void require_is_leased();

/*
 * The bulk form of it, one statement for all rows of a queue: what end_row() does with a row
 * has to be done here with all of them. Each wants its owner's rights: as_owner(). Returns how many.
 */
uint64 end_waiting_rows(int32 queue_id); /* purge: those that nobody has in hand */
void end_all_rows(int32 queue_id);		 /* drop: records too */

} // namespace pgq
