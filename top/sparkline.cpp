#include "sparkline.h"

#include <algorithm>

namespace top {

namespace {

constexpr int kLevels = 8;
constexpr char kAsciiBars[kLevels + 1] = "_.-:=+*#";

std::string
bar(int level, Charset charset)
{
	if (charset == Charset::ascii)
		return std::string(1, kAsciiBars[level]);
	return shared::utf8_of(U'\u2581' + static_cast<char32_t>(level));
}

/*
 * Return the level of a sample. Only the sample 0 has level 0; the largest sample has the highest
 * level.
 */
int
level_of(int64_t sample, int64_t largest)
{
	if (sample <= 0)
		return 0;
	double part = static_cast<double>(sample) / static_cast<double>(largest);
	return std::clamp(static_cast<int>(part * (kLevels - 1) + 0.5), 1, kLevels - 1);
}

} // namespace

std::string
sparkline(const std::vector<Count> &samples, int columns, Charset charset)
{
	if (columns <= 0)
		return "";
	size_t n = std::min(samples.size(), static_cast<size_t>(columns));
	auto first = samples.end() - static_cast<std::ptrdiff_t>(n);
	int64_t largest = 0;
	for (auto sample = first; sample != samples.end(); ++sample)
		largest = std::max(largest, sample->value_or(0));
	std::string line(static_cast<size_t>(columns) - n, ' ');
	for (auto sample = first; sample != samples.end(); ++sample)
		line += *sample ? bar(level_of(**sample, largest), charset) : " ";
	return line;
}

} // namespace top
