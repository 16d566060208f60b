/*
 * Random numbers from a seed. Every actor has a generator of its own, derived from the seed of the
 * run. So the decisions of one actor do not depend on the speed of another.
 */
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace torture {

class Random
{
public:
	Random(uint64_t seed, std::string_view whose) : state(seed * 0x9e3779b97f4a7c15u)
	{
		for (char c : whose)
			state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
		(void) next();
	}

	/* Return the next number, by the algorithm splitmix64. */
	uint64_t next()
	{
		uint64_t z = (state += 0x9e3779b97f4a7c15u);
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
		return z ^ (z >> 31);
	}

	/* Return a number from `least` to `most`, both included. */
	int between(int least, int most)
	{
		return least + static_cast<int>(next() % static_cast<uint64_t>(most - least + 1));
	}

	bool chance(int percent) { return between(1, 100) <= percent; }

	template <typename T> const T &pick(const std::vector<T> &from)
	{
		return from[static_cast<size_t>(between(0, static_cast<int>(from.size()) - 1))];
	}

private:
	uint64_t state;
};

} // namespace torture
