/* Rows of pgq_ext.queue, and finding the slot of a queue by its name. */
#pragma once

#include "catalog/rights.h"
#include "catalog/tables.h"

namespace pgq {

/*
 * Return the queue of that name, after checking that the caller has the right that `permission` needs.
 * Each backend remembers the names of queues that it has used, and reads the row only for a name
 * that it does not remember. Raises 42704 (no such queue) with the most similar name as a hint, and
 * 42501 (permission denied).
 */
QueueRef resolve_queue(const Tables &t, const char *name, Permission permission);

/*
 * Like resolve_queue(), for an administrator who drops or empties the queue: the hint of the error
 * never proposes to create the queue. hint: the hint if no queue has a similar name; nullptr: no
 * hint then.
 */
QueueRef resolve_queue_to_empty(const Tables &t, const char *name, const char *hint);

/* Like resolve_queue(), without a check of rights. Returns false if there is no such queue. */
bool find_queue(const Tables &t, const char *name, QueueRef *ref);

/*
 * Forget the name in this session, because this transaction renames the queue. The next use of the
 * name reads the row again.
 */
void forget_queue_name(const char *name);

/*
 * Find the queue by its id, and attach the queue if it has no slot. Raises 53400 if all slots are
 * taken. Returns false if there is no such queue.
 */
bool attach_queue_by_id(const Tables &t, int32 queue_id, QueueRef *ref);

/*
 * Read the row of the queue with that name, as committed by now and with the changes of this
 * transaction. Returns false if no queue has that name.
 */
bool read_queue_row(const Tables &t, const char *name, QueueRow *row);

struct Attached
{
	int queues;
	/*
	 * number of queues without a slot; such a queue gets a slot when a client uses it and a slot is
	 * free
	 */
	int left_out;
	int unreadable; /* number of rows without a valid id or name, which are ignored */
};

/*
 * Return all valid rows of pgq_ext.queue in palloc'd memory, without attaching any queue.
 * without_us: ignore changes of this transaction.
 */
QueueRow *read_queue_rows(const Tables &t, int *n, bool without_us = false);

/*
 * Attach every queue of this database. Update or free slots whose rows a user's SQL has changed or
 * deleted.
 */
Attached attach_all_queues(const Tables &t);

} // namespace pgq
