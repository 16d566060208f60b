/* The attributes of a job as arguments of an SQL function. */
#pragma once

#include "enqueue/job_spec.h"

namespace pgq {

/* The number of attributes that pgq_enqueue takes as arguments: all but the last, `ref`. */
inline constexpr int kEnqueueArguments = kJobAttributes - 1;

/*
 * Read up to n attributes of a job from the function's arguments; argument number `first` is the first
 * attribute. SQL objects of version 0.1 do not pass the last attributes.
 */
JobSpec job_of_arguments(FunctionCallInfo fcinfo, int first, int n);

} // namespace pgq
