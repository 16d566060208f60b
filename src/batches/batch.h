/* Making and closing batches. See README.md. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* The callbacks of a batch, in the order of the arguments of pgq_create_batch. */
inline constexpr const char *callback_names[] = {"on_success", "on_failure", "on_finish"};
inline constexpr int kCallbacks = 3;

struct BatchSpec
{
	Jsonb *callbacks[kCallbacks]; /* nullptr: there is no such callback */
	Jsonb *metadata;			  /* or nullptr */
};

/*
 * Make a batch whose maker is the current role, and return its id. Raises the errors that enqueuing
 * the callbacks would raise, and 55000 if the tables have no column for batches.
 */
int64 create_batch(const BatchSpec &spec);

/*
 * Close the batch. Does nothing if it is closed already. Raises 42704 if there is no such batch, or
 * if the caller is neither a member of the maker's role nor the owner of the extension.
 */
void close_batch(int64 batch_id);

/*
 * Look up the makers of all batches again by maker_name, and let the scheduler look at all batches:
 * rows may have come while the trigger of the table was switched off. Any UPDATE of the column maker
 * makes the trigger look up the role.
 */
void find_batch_makers();

} // namespace pgq
