/* The columns of pgq_ext.queue, and reading the options of a queue from them. */
#pragma once

#include "catalog/tables.h"
#include "engine/queue_options.h"

namespace pgq {

/* Columns of pgq_ext.queue, in table order. */
enum QueueColumn : AttrNumber
{
	kQueueId = 1,
	kQueueName,
	kQueueFirstOption,
	kQueueCreatedAt = kQueueFirstOption + kFirstOptions,
	kQueuePausedAt,
	kQueueLaterOption,
	kQueueColumns = kQueuePausedAt + kQueueOptions - kFirstOptions,
};

/* Open the table of queues in AccessShareLock, and check its columns. */
Relation open_queues(const Tables &t);

/*
 * Read the options from a row of the table. A NULL means the default of pgq_create_queue(). So does
 * a column of is_later_option() that the table lacks.
 */
QueueOptions read_options(HeapTuple tuple, TupleDesc desc);

/* Raise error 55000 if the table lacks the columns of options that is_later_option() names. */
void require_later_options(const Tables &t);

} // namespace pgq
