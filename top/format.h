/* Numbers and times in few columns. What is not known is a dash. */
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace top {

using Count = std::optional<int64_t>;
using Seconds = std::optional<double>;

constexpr const char *kUnknown = "-";

/* All digits. */
std::string exact(Count n);
/* At most five columns: 99999, 100k, 1.5M. */
std::string brief(Count n);
/* Something a second: 0, 0.25, 12.5, 4711, 15k. */
std::string rate(std::optional<double> per_second);
/* A time that people wait: 0.4s, 12s, 5m12s, 3h05m, 2d04h, 812d. Negative: it is over for so long. */
std::string age(Seconds seconds);
/* A time that machines take: 850us, 1.2ms, 35ms; from a second on an age. */
std::string latency(Seconds seconds);

} // namespace top
