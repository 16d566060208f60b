/*
 * Subscriptions of logical replication that bring rows to the extension's tables. These rows belong
 * to the publisher.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Return whether a subscription brings jobs or records. Call this while holding the lock of a
 * segment: taking the lock has processed the latest invalidations.
 */
bool is_subscribed();

/*
 * Raise error 55000, naming the subscription, if one brings jobs or records
 * (protocol: publisher-owns-its-jobs). New jobs are refused too: their ids would collide with the
 * publisher's next ones. Cheap: reads a flag. The second function does the same for subscriptions
 * to the table of queues.
 */
void refuse_if_subscribed();
void refuse_if_queues_subscribed();

} // namespace pgq
