/* Batches: what the actors and the auditor share. */
#pragma once

#include "actor.h"

namespace torture {

/*
 * Create the queues and the table of effects. Does nothing if the SQL objects are of a version without
 * batches, or if all that exists.
 */
void prepare_batches(Session &session);

/* Do the jobs of some callbacks: write their effects, and acknowledge them. Returns their number. */
int do_callbacks(Session &session, Transaction &tx, int most, Time wait = 0);

/* Close the batch. */
void close_batch(Session &session, Transaction &tx, const Batched::Known &batch);

/*
 * At a quiet point without open transactions: close all batches, end all members, and do all callbacks.
 */
void drain_batches(Session &session, Random &random);
/* Check batches, members and callbacks. drained: drain_batches() was called. Forgets batches that have ended. */
void audit_batches(Session &session, bool drained);

} // namespace torture
