/*
 * What memory knows about children: whether a job of the database may have any. See the README of
 * dependencies/, "Jobs without children".
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/*
 * Return whether a job of the database may have children. If it returns false, there is no
 * dependency that is not dead, and none is inserted before expect_children() is called.
 */
bool may_have_children(const Database *db);

/*
 * Note that a dependency is about to be inserted. The caller has locked pgq_ext.job_dependency in
 * RowExclusiveLock, and keeps the lock to the end of its transaction.
 */
void expect_children(Database *db);

} // namespace pgq
