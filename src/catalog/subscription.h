/*
 * Subscriptions that bring rows to our tables: what they bring is the publisher's.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Does one bring jobs or records? To be asked with a segment's lock in hand, with which comes the news. */
bool is_subscribed();

/*
 * Jobs that a subscription brings are the publisher's (protocol: publisher-owns-its-jobs): error
 * 55000 naming it. A flag, so cheap. Nobody else may add some either: their ids would be the
 * publisher's next ones. The same for queues.
 */
void refuse_if_subscribed();
void refuse_if_queues_subscribed();

} // namespace pgq
