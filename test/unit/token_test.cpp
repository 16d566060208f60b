#include "core/token.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace {

using namespace pgq;

constexpr TokenKey kKey = {{UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)}};

TEST(Token, ComposedAndSplit)
{
	constexpr int64_t kLast = INT64_C(8796093022207); /* in the year 2298 */
	for (int64_t prefix : {INT64_C(0), INT64_C(1), INT64_C(217395146877), kLast})
		for (int64_t check : {INT64_C(0), INT64_C(1), INT64_C(512), kCheckMask})
		{
			int64_t token = token_of(prefix, check);
			EXPECT_EQ(prefix_of(token), prefix);
			EXPECT_EQ(check_of(token), check);
			EXPECT_LE(token, greatest_of(prefix));
			EXPECT_LT(token, token_of(prefix + 1, 0));
			EXPECT_LT(token, INT64_C(1) << 53);
		}
}

TEST(Token, MarkIsABoundForWholePrefixes)
{
	EXPECT_EQ(greatest_prefix_below(0), -1);
	EXPECT_EQ(greatest_prefix_below(greatest_of(0)), 0);
	for (int64_t mark : {INT64_C(0), INT64_C(1), INT64_C(1022), INT64_C(1023), INT64_C(1024),
						 INT64_C(217395146877518), greatest_of(77), greatest_of(77) - 1})
	{
		int64_t prefix = greatest_prefix_below(mark);
		EXPECT_LE(greatest_of(prefix), mark);
		EXPECT_GT(greatest_of(prefix + 1), mark);
	}
}

/*
 * Tokens of an old format, numbers of microseconds in a row or in the sequence, are below all new
 * tokens.
 */
TEST(Token, GreaterThanOnesOfMicroseconds)
{
	for (int64_t microseconds :
		 {INT64_C(0), INT64_C(999), INT64_C(1000), INT64_C(217395146877518), INT64_C(1) << 50})
		EXPECT_GE(greatest_of(microseconds / 1000), microseconds);
}

/*
 * A token of another job or time, or any number, passes with a probability of 1/1,024,
 * independently for each key.
 */
TEST(Token, ChecksOfOthersFail)
{
	std::mt19937_64 random(1);
	int passed[4] = {};
	constexpr int kTries = 200'000;
	for (int i = 0; i < kTries; i++)
	{
		auto job = static_cast<int64_t>(random() % 1'000'000);
		auto prefix = static_cast<int64_t>(random() % (UINT64_C(1) << 43));
		int64_t check = check_bits(kKey, job, prefix);
		EXPECT_EQ(check, check_bits(kKey, job, prefix));
		TokenKey other = {{kKey.word[0], kKey.word[1] ^ UINT64_C(1) << i % 64}};
		passed[0] += check_bits(kKey, job + 1, prefix) == check;
		passed[1] += check_bits(kKey, job, prefix + 1) == check;
		passed[2] += check_bits(other, job, prefix) == check;
		passed[3] += check_bits(kKey, prefix, job) == check;
	}
	for (int n : passed)
	{
		EXPECT_GT(n, kTries / 1024 * 8 / 10);
		EXPECT_LT(n, kTries / 1024 * 12 / 10);
	}
}

TEST(Token, EachBitOfTheInputChangesHalfOfTheCheckBits)
{
	std::mt19937_64 random(2);
	for (int bit = 0; bit < 64; bit++)
	{
		int changed = 0;
		constexpr int kTries = 2'000;
		for (int i = 0; i < kTries; i++)
		{
			auto job = static_cast<int64_t>(random());
			auto prefix = static_cast<int64_t>(random());
			auto flip = static_cast<int64_t>(UINT64_C(1) << bit);
			int64_t check = check_bits(kKey, job, prefix);
			changed += __builtin_popcountll(check ^ check_bits(kKey, job ^ flip, prefix));
			changed += __builtin_popcountll(check ^ check_bits(kKey, job, prefix ^ flip));
		}
		EXPECT_NEAR(changed / (2.0 * kTries * kCheckBits), 0.5, 0.02) << bit;
	}
}

TEST(Token, KeyOfADatabase)
{
	TokenKey one = mixed_with(kKey, 16384);
	TokenKey two = mixed_with(kKey, 16385);
	EXPECT_NE(one.word[1], two.word[1]);
	EXPECT_EQ(mixed_with(one, 16384).word[0], kKey.word[0]);
	EXPECT_EQ(mixed_with(one, 16384).word[1], kKey.word[1]);
}

/*
 * Random draws, ends that give a job back, and cuts, made from these functions as in
 * engine/token.cpp.
 */
TEST(Token, GrowsForEachJob)
{
	std::mt19937_64 random(3);
	uint64_t word = undrawn(100);
	int64_t clock = 90;
	std::map<int, int64_t> held;   /* job -> prefix */
	std::map<int, int64_t> newest; /* job -> the last prefix that was given to a worker */
	std::map<int, int64_t> fence;  /* job -> fence of its row, as a token */
	int64_t first = last_prefix(word);
	int draws = 0;
	for (int i = 0; i < 100'000; i++)
	{
		int job = static_cast<int>(random() % 20);
		switch (random() % 4)
		{
			case 0:
				clock += static_cast<int64_t>(random() % 3) - (random() % 50 == 0 ? 40 : 0);
				break;
			case 1:
			{
				if (held.contains(job))
					break;
				int64_t prefix = std::max(clock, last_prefix(word));
				word = drawn(prefix);
				draws++;
				if (newest.contains(job))
				{
					EXPECT_GT(prefix, newest[job]);
				}
				if (fence.contains(job))
				{
					EXPECT_GT(token_of(prefix, 0), fence[job]);
				}
				held[job] = newest[job] = prefix;
				break;
			}
			case 2: /* it comes back */
				if (held.contains(job))
					word = std::max(word, undrawn(held[job] + 1));
				held.erase(job);
				break;
			case 3: /* its row is changed */
				word = passed(word);
				fence[job] = greatest_of(last_prefix(word) - 1);
				if (newest.contains(job))
				{
					EXPECT_GE(fence[job], greatest_of(newest[job]));
				}
				EXPECT_EQ(passed(word), word) << "nothing was drawn: the next one costs nothing";
				break;
		}
	}
	EXPECT_LT(last_prefix(word) - first, draws + 100'000);
}

} // namespace
