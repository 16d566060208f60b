/*
 * See restore.cpp.
 */
#pragma once

namespace pgq {

void restore_init();

} // namespace pgq
