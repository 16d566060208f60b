/* Formats numbers and times in few columns. An unknown value is a dash. */
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace top {

using Count = std::optional<int64_t>;
using Seconds = std::optional<double>;

constexpr const char *kUnknown = "-";

/* Return the number with all of its digits. */
std::string exact(Count n);
/* Return the number in at most five columns: 99999, 100k, 1.5M. */
std::string brief(Count n);
/* Return a rate: 0, 0.25, 12.5, 4711, 15k. */
std::string rate(std::optional<double> per_second);
/* Return a waiting time: 0.4s, 12s, 5m12s, 3h05m, 2d04h, 812d. Negative: overdue by that time. */
std::string age(Seconds seconds);
/* Return a run time: 850us, 1.2ms, 35ms; from one second on like age(). */
std::string latency(Seconds seconds);

} // namespace top
