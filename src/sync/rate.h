/*
 * Named rates: how often something may be done that is not a job. Definitions are rows of pgq_ext.rate_limit; what has been
 * taken is in memory (engine/named_rate.h), and saved at a clean stop. What was taken is not given back by a rollback: the call it was for
 * has gone out.
 */
#pragma once

#include "engine/named_rate.h"

namespace pgq {

/* False: there is one already. */
bool create_rate(const char *name, int32 permits, Datum period, int32 burst);

/* False: there is none. */
bool drop_rate(const char *name);

/* Now, or within that time: then it is waited for. False: not in that time. Errors: 42704, 22023, 53400. */
bool take_rate(const char *name, int32 permits, int64 wait);

/* 42704 */
[[noreturn]] void complain_of_rate(const char *name);

RateKey rate_key_of(const char *name);

} // namespace pgq
