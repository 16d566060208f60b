/*
 * Jobs whose time is over before somebody has had them (expires_in). A claim leaves them where they are; the
 * scheduler ends them.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* End some, at most that many, whose time was over by then, and that nobody has in hand or has locked. Waits for nobody. Returns how many. */
int expire_jobs(TimestampTz then, int most);

} // namespace pgq
