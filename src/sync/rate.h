/*
 * Named rates: how often something that is not a job may be done. Definitions are rows of
 * pgq_ext.rate_limit. The permits taken are in memory (engine/named_rate.h), and are saved at a
 * clean stop. A rollback does not give permits back: the call that they allowed has been made.
 */
#pragma once

#include "engine/named_rate.h"

namespace pgq {

/* False: a rate of that name exists. */
bool create_rate(const char *name, int32 permits, Datum period, int32 burst);

/* False: there is no such rate. */
bool drop_rate(const char *name);

/*
 * Take permits, waiting for at most `wait` microseconds. False: they are not available in that
 * time. Errors: 42704 unknown rate, 22023 more permits than the burst, 53400 too many rates.
 */
bool take_rate(const char *name, int32 permits, int64 wait);

/* Raise error 42704: the rate does not exist. */
[[noreturn]] void complain_of_rate(const char *name);

RateKey rate_key_of(const char *name);

} // namespace pgq
