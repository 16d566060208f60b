#pragma once

#include "engine/shared.h"

namespace pgq {

/* One step. Returns the monotonic time of the next. */
int64 rotate_segments(Database *database);

} // namespace pgq
