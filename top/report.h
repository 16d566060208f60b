/* One look, for pipes and scripts. */
#pragma once

#include "rates.h"
#include "text.h"

namespace top {

/* Tables as plain text. */
std::string report(const Snapshot &snapshot, const Memory &memory, Charset charset);

/* One JSON document; docs/top.md says what is in it. */
std::string document(const Snapshot &snapshot, const Memory &memory);

} // namespace top
