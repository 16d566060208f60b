/*
 * Subscriptions of logical replication that bring rows to the extension's tables. These rows belong
 * to the publisher.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Return whether a subscription brings jobs or records. The caller must hold the lock of a segment:
 * taking that lock has processed the latest invalidations.
 */
bool is_subscribed();

/*
 * Raise error 55000, naming the subscription, if a subscription brings jobs or records
 * (protocol: publisher-owns-its-jobs). New jobs are refused too: their ids would collide with ids
 * of the publisher's next jobs. A call costs little, since it only reads a flag.
 * refuse_if_queues_subscribed() does the same for a subscription that brings rows of pgq_ext.queue.
 */
void refuse_if_subscribed();
void refuse_if_queues_subscribed();

} // namespace pgq
