/*
 * Named rates: limits on how often something may be done that is not a job. Definitions are rows of
 * pgq_ext.rate_limit. The permits taken are counted in memory (engine/named/named_rate.h), and saved
 * at a clean stop. A rollback gives no permits back: the call that a permit allowed has been made.
 */
#pragma once

#include "engine/named/named_rate.h"

namespace pgq {

/* Create a rate. Returns false if a rate of that name exists. */
bool create_rate(const char *name, int32 permits, Datum period, int32 burst);

/* Drop the rate. Returns false if there is no such rate. */
bool drop_rate(const char *name);

/*
 * Take permits, waiting for at most `wait` microseconds. Returns false if the permits are not
 * available in that time. Raises 42704 (unknown rate), 22023 (more permits than the burst), 53400
 * (too many rates).
 */
bool take_rate(const char *name, int32 permits, int64 wait);

/* Raise error 42704: the rate does not exist. */
[[noreturn]] void complain_of_rate(const char *name);

/* Return the key of the rate for the present incarnation of the extension. */
RateKey rate_key_of(const char *name);

} // namespace pgq
