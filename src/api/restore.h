/* Restores of data-only dumps: see restore.cpp. */
#pragma once

namespace pgq {

void restore_init();

} // namespace pgq
