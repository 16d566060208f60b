/* Rows of pgq_ext.queue, and finding the slot of a queue by its name. */
#pragma once

#include "catalog/rights.h"
#include "catalog/tables.h"

namespace pgq {

/*
 * Return the queue of that name, after checking that the caller may use it as `deed` says. Each
 * backend remembers names, and reads the row only if it does not know the name. Errors: 42704
 * unknown, with the nearest name as a hint; 42501 permission denied.
 */
QueueRef resolve_queue(const Tables &t, const char *name, Deed deed);

/*
 * The same for an administrator who drops or empties the queue: the hint never proposes to create
 * it. hint: an alternative, or nullptr.
 */
QueueRef resolve_queue_to_empty(const Tables &t, const char *name, const char *hint);

/* Like resolve_queue(), without a check of rights. False: there is no such queue. */
bool find_queue(const Tables &t, const char *name, QueueRef *ref);

/*
 * Forget the name in this session, because this transaction renames the queue. The next use of the
 * name reads the row.
 */
void forget_queue_name(const char *name);

/*
 * Find the queue by id, and attach it if it has no slot. Error 53400 if all slots are taken. False:
 * there is no such queue.
 */
bool attach_queue_by_id(const Tables &t, int32 queue_id, QueueRef *ref);

/*
 * Read the row, as it is by now with the changes of this transaction. False: there is none of that
 * name.
 */
bool read_queue_row(const Tables &t, const char *name, QueueRow *row);

struct Attached
{
	int queues;
	/* queues without a slot, served only when a client asks for them and a slot is free */
	int left_out;
	int unreadable; /* rows without a valid id or name; not served */
};

/*
 * Return all valid rows of pgq_ext.queue, allocated, without attaching any queue. without_us:
 * ignore the changes of this transaction.
 */
QueueRow *read_queue_rows(const Tables &t, int *n, bool without_us = false);

/*
 * Attach every queue of this database, and make the slots follow rows that were changed by a user's
 * SQL.
 */
Attached attach_all_queues(const Tables &t);

} // namespace pgq
