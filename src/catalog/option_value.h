/* Values of queue options as SQL datums. */
#pragma once

#include "engine/queue_options.h"

namespace pgq {

/* Convert a text to a value of that type. */
Datum value_from(Oid type, const char *text);

/* Raise error 22023, naming the option, if the value is not allowed. */
void check_option(const QueueOption &option, Datum value);

/*
 * Raise error 22023 if these options must not be combined. An option that the caller has not given
 * is zero.
 */
void check_together(const QueueOptions &options);

/*
 * Store the value in *options. Instead of a value that check_option() would refuse, store the
 * nearest allowed value.
 */
void set_option(QueueOptions *options, const QueueOption &option, Datum value);

} // namespace pgq
