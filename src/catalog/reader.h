/*
 * Checks of the functions that return the rows of the views. These functions run with the rights of
 * the role that reads the view, and PUBLIC may execute them. So each function checks that the
 * caller could read the same data in a view that uses the function.
 */
#pragma once

#include "pg/pg.h"

#include <initializer_list>

namespace pgq {

/*
 * Raise error 42501 unless the caller may read at least one of these views of schema pgq_ext, or
 * has EXECUTE on the function by an explicit grant. A role that reads a user's view over a pgq_ext
 * view needs such a grant.
 */
void require_reader(FunctionCallInfo fcinfo, std::initializer_list<const char *> views);

/*
 * Return whether the caller may read a column with secrets (tokens, payloads) in this view. The
 * grant of the view to pg_monitor does not count: members of pg_monitor read the views without the
 * secrets.
 */
bool may_read(const char *view, const char *column);

} // namespace pgq
