/*
 * Rows of pgq_ext.queue, and the way from a queue's name to its slot.
 */
#pragma once

#include "catalog/rights.h"
#include "catalog/tables.h"

namespace pgq {

/*
 * The queue of that name, for who wants to do that with it. Remembered per backend; the row is read only
 * when it is not. Errors: 42704 with the nearest name when there is none, 42501 the caller may not.
 */
QueueRef resolve_queue(const Tables &t, const char *name, Deed deed);

/* The same for an administrator who wants to be rid of it or of its jobs: nobody is told to create it. hint: what else to do, or NULL. */
QueueRef resolve_queue_to_empty(const Tables &t, const char *name, const char *hint);

/* As above, but a missing queue is no error: false. */
bool find_queue(const Tables &t, const char *name, QueueRef *ref);

/* This transaction gives the queue of that name another one: the next who asks for it in this session reads the row. */
void forget_queue_name(const char *name);

/* The queue by id. Error 53400 if it has no slot and all are taken. */
bool attach_queue_by_id(const Tables &t, int32 queue_id, QueueRef *ref);

/* The row as it is by now, with our own changes. False: there is none of that name. */
bool read_queue_row(const Tables &t, const char *name, QueueRow *row);

struct Attached
{
	int queues;
	int left_out; /* have found no slot: served as far as a client asks for them and a slot is free by then */
	int unreadable; /* rows without an id or a name that a queue can have; nobody serves them */
};

/* All rows of pgq_ext.queue that are a queue's, allocated; without_us: as if this transaction had done nothing. Attaches nothing. */
QueueRow *read_queue_rows(const Tables &t, int *n, bool without_us = false);

/* Attach every queue of this database, and make slots follow what somebody has done to the rows by hand. */
Attached attach_all_queues(const Tables &t);

} // namespace pgq
