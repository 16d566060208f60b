/* Prints the data of a look, for pipes and scripts. */
#pragma once

#include "rates.h"
#include "text.h"

namespace top {

/* Return the tables as plain text. */
std::string report(const Snapshot &snapshot, const Memory &memory, Charset charset);

/* Return a JSON document; docs/top.md describes it. */
std::string document(const Snapshot &snapshot, const Memory &memory);

} // namespace top
