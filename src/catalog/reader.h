/*
 * Checks in the functions behind the views. These functions run with the rights of the reader, and
 * PUBLIC may execute them. So each of them checks that the caller could read the same data in one
 * of its views.
 */
#pragma once

#include "pg/pg.h"

#include <initializer_list>

namespace pgq {

/*
 * Raise error 42501 unless the caller may read one of these views of schema pgq_ext, or has EXECUTE
 * on the function by an explicit grant. Readers of a user's view over a pgq_ext view need such a
 * grant.
 */
void require_reader(FunctionCallInfo fcinfo, std::initializer_list<const char *> views);

/*
 * Return whether the caller may read a column with secrets (tokens, payloads). The grant to
 * pg_monitor does not count: its members read the views without the secrets.
 */
bool may_read(const char *view, const char *column);

} // namespace pgq
