#include "format.h"

#include <cmath>
#include <cstdio>

namespace top {

namespace {

template <typename... Values>
std::string
printed(const char *format, Values... values)
{
	char text[64];
	snprintf(text, sizeof(text), format, values...);
	return text;
}

/* Format a number of at least 1000: 1.5M, 15M, 150M. */
std::string
with_unit(double n)
{
	static constexpr char units[] = {'k', 'M', 'G', 'T', 'P', 'E'};
	size_t unit = 0;
	n /= 1000;
	while (n >= 999.5 && unit + 1 < sizeof(units))
	{
		n /= 1000;
		unit++;
	}
	return printed(n < 9.95 ? "%.1f%c" : "%.0f%c", n, units[unit]);
}

/* Format a time with two units, the smaller one with two digits: 5m12s. */
std::string
two_units(double seconds)
{
	int64_t n = static_cast<int64_t>(seconds);
	if (n < 3600)
		return printed("%dm%02ds", static_cast<int>(n / 60), static_cast<int>(n % 60));
	n /= 60;
	if (n < 24 * 60)
		return printed("%dh%02dm", static_cast<int>(n / 60), static_cast<int>(n % 60));
	n /= 60;
	if (n < 100 * 24)
		return printed("%dd%02dh", static_cast<int>(n / 24), static_cast<int>(n % 24));
	return std::to_string(n / 24) + "d";
}

} // namespace

std::string
exact(Count n)
{
	return n ? std::to_string(*n) : kUnknown;
}

std::string
brief(Count n)
{
	if (!n || std::llabs(*n) < 100000)
		return exact(n);
	return (*n < 0 ? "-" : "") + with_unit(std::fabs(static_cast<double>(*n)));
}

std::string
rate(std::optional<double> per_second)
{
	if (!per_second)
		return kUnknown;
	double n = *per_second;
	if (n == 0)
		return "0";
	if (n < 9.995)
		return printed("%.2f", n);
	if (n < 99.95)
		return printed("%.1f", n);
	return n < 9999.5 ? printed("%.0f", n) : with_unit(n);
}

std::string
age(Seconds seconds)
{
	if (!seconds || !std::isfinite(*seconds))
		return kUnknown;
	double n = std::fabs(*seconds);
	std::string sign = *seconds <= -0.05 ? "-" : "";
	if (n < 9.95)
		return sign + printed("%.1fs", n);
	/* Round before choosing the unit: 59.7 s is a minute, not 60 seconds. */
	n = n < 60 ? std::round(n) : n;
	return sign + (n < 60 ? printed("%.0fs", n) : two_units(n));
}

std::string
latency(Seconds seconds)
{
	if (!seconds || !std::isfinite(*seconds) || *seconds >= 0.9995)
		return age(seconds);
	double ms = *seconds * 1000;
	if (ms < 0.9995)
		return printed("%.0fus", ms * 1000);
	return printed(ms < 9.95 ? "%.1fms" : "%.0fms", ms);
}

} // namespace top
