/* The rows of the view pgq_ext.watch. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* The watch of one table or partition, for one target. */
struct ListedWatch
{
	Oid relation;
	Oid part_of; /* the table that jobs name, if that is not `relation` */
	const char *target;
	List *columns; /* names; NIL: all columns, or none for a coalescing watch */
	List *key;	   /* names; NIL: there is no key */
	bool coalescing;
	List *triggers;		 /* names, for INSERT, UPDATE and DELETE; NULL: it is missing */
	const char *problem; /* NULL: there is none */
	bool fails;			 /* writes to the table fail because of the problem */
};

/* Call put(context, watch) for each watch of the database. */
void list_watches(void (*put)(void *context, const ListedWatch &watch), void *context);

/*
 * Raise 2BP01 if a table is watched for the queue, which is about to be dropped. With `force` tell
 * the client instead: after the drop each write to the table fails.
 */
void refuse_watched_queue(int32 queue_id, const char *name, bool force);

} // namespace pgq
