/* Values of queue options as SQL datums. */
#pragma once

#include "engine/queue_options.h"

namespace pgq {

/* Convert a text to a value of that type. */
Datum value_from(Oid type, const char *text);

/* Raise error 22023, naming the option, if the value is not allowed. */
void check_option(const QueueOption &option, Datum value);

/* Raise error 22023 if these options must not be combined. Options that are not given are zero. */
void check_together(const QueueOptions &options);

/*
 * Store the value in *options. A value that check_option() would refuse is replaced by the nearest
 * allowed one.
 */
void set_option(QueueOptions *options, const QueueOption &option, Datum value);

} // namespace pgq
