/*
 * The readers of the views. The functions behind the views run with the rights of the reader, and EXECUTE on them
 * is everybody's, so each function asks for itself what a direct call may tell: only what the caller could read in one
 * of its views.
 */
#pragma once

#include "pg/pg.h"

#include <initializer_list>

namespace pgq {

/*
 * Error 42501, unless the caller may read one of these views (schema pgq_ext), or was granted EXECUTE on the function
 * by name, as the readers of somebody else's view over ours need it.
 */
void require_reader(FunctionCallInfo fcinfo, std::initializer_list<const char *> views);

/*
 * May the caller read that column, which holds a secret (a token, a payload)? The grant to pg_monitor does not count:
 * its members read the views without their secrets.
 */
bool may_read(const char *view, const char *column);

} // namespace pgq
