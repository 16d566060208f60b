/* Rows of pgq_ext.queue_handler: the handlers of queues. */
#pragma once

#include "engine/registry.h"

namespace pgq {

struct HandlerRow
{
	int32 queue_id;
	/*
	 * Why the row cannot be read, in palloc'd memory; NULL: the row was read. If it is not NULL, no
	 * other field except queue_id is set.
	 */
	const char *broken;
	/*
	 * OID of the handler's function. The fields that follow must agree with the function (check.h).
	 */
	Oid function;
	NameData schema_name;
	NameData function_name;
	Oid function_owner;
	bool takes_array; /* the argument is an array of jobs */
	int32 workers;
	int64 timeout; /* microseconds, like idle */
	int32 batch;
	int64 idle;
	Oid run_as;
	NameData run_as_name;
	bool superuser; /* true: the handler may run as a superuser, since a superuser has set it */
	bool paused;
	int64 stamp;  /* stamp() of the database in which the handler was set */
	int32 server; /* major version of the server on which the handler was set */
	/*
	 * when the handler was last set or resumed; only read here: write_handler() and
	 * rewrite_handler() store now() instead
	 */
	TimestampTz set_at;
};

/*
 * Return the handlers in palloc'd memory, as committed by now, with the changes of this
 * transaction; role: only those of this role, or of all roles if it is invalid. A row that cannot be
 * read, because it is damaged or because SQL has written invalid values, does not keep the others
 * from being read: it is returned as broken.
 */
HandlerRow *read_handlers(Oid role, int *n);

/*
 * Lock the handler's row, and read it; the result may be broken. Returns false if there is no row.
 */
bool lock_handler(int32 queue_id, HandlerRow *row);

/*
 * Write the row. known: the caller has locked a row of the queue, which this row replaces. Without
 * `known`, returns false if another session has written a row of the queue.
 */
bool write_handler(const HandlerRow &row, Datum timeout, Datum idle, bool known);

/* Write the function's OID, because pg_upgrade has given the function another one. */
void rewrite_function(const HandlerRow &row);

/* Write the fields about the function, the role and the database. Resumes a paused handler. */
void rewrite_handler(const HandlerRow &row);

/* Delete the handler of the queue. Returns false if the queue has no handler. */
bool delete_handler(int32 queue_id);
void pause_handler(int32 queue_id, bool paused);

/*
 * Return a number for this database. A database that was restored from a dump or created from a
 * template has another number. After pg_upgrade and on a standby the number is the same.
 */
int64 stamp();

} // namespace pgq
