/*
 * Values of queue options, as SQL has them.
 */
#pragma once

#include "engine/queue_options.h"

namespace pgq {

/* A value of any type, from its text. */
Datum value_from(Oid type, const char *text);

/* 22023 naming it if pgq_create_queue would not take it. */
void check_option(const QueueOption &option, Datum value);

/* 22023 if they cannot be together. Of those that are not given: zero. */
void check_together(const QueueOptions &options);

/* Put it into *options. What check_option() would refuse becomes the nearest value that it takes. */
void set_option(QueueOptions *options, const QueueOption &option, Datum value);

} // namespace pgq
