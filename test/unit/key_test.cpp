#include "core/key.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

namespace {

using pgq::Key;
using pgq::TimerKey;

/* Priority DESC, run_at ASC, job_id ASC (protocol: pop-is-exact). */
TEST(Key, OrderOfReadyJobs)
{
	std::vector<Key> in_order = {
		Key::lowest(),	{INT32_MAX, 0, 1}, {9, 500, 7},		  {1, -3, 9}, {1, 0, 2},
		{1, 0, 3},		{1, 1, 1},		   {0, INT64_MIN, 1}, {-1, 0, 1}, {INT32_MIN, INT64_MAX, 5},
		Key::highest(),
	};
	for (size_t i = 0; i < in_order.size(); i++)
		for (size_t k = 0; k < in_order.size(); k++)
		{
			EXPECT_EQ(in_order[i] < in_order[k], i < k) << i << ' ' << k;
			EXPECT_EQ(in_order[i] == in_order[k], i == k) << i << ' ' << k;
		}
}

TEST(TimerKey, OrderByTime)
{
	std::vector<TimerKey> in_order = {
		TimerKey::lowest(), {-1, 5}, {0, 2}, {0, 3}, {1, INT64_MIN}, {1, 1}, TimerKey::highest()};
	for (size_t i = 0; i < in_order.size(); i++)
		for (size_t k = 0; k < in_order.size(); k++)
		{
			EXPECT_EQ(in_order[i] < in_order[k], i < k) << i << ' ' << k;
			EXPECT_EQ(in_order[i] == in_order[k], i == k) << i << ' ' << k;
		}
}

/*
 * Compare with the order of tuples. Extreme priorities must not overflow when their sign is
 * changed.
 */
TEST(Key, AgreesWithTuples)
{
	std::mt19937_64 random(1);
	const int32_t priorities[] = {INT32_MIN, INT32_MIN + 1, -1, 0, 1, INT32_MAX};
	const int64_t numbers[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
	auto any = [&] {
		return Key{priorities[random() % 6], numbers[random() % 5], numbers[random() % 5]};
	};
	auto tuple = [](const Key &k) {
		return std::tuple(-static_cast<int64_t>(k.priority), k.run_at, k.job_id);
	};
	for (int i = 0; i < 20000; i++)
	{
		Key a = any(), b = any();
		ASSERT_EQ(a < b, tuple(a) < tuple(b));
		TimerKey ta{a.run_at, a.job_id}, tb{b.run_at, b.job_id};
		ASSERT_EQ(ta < tb, std::tuple(a.run_at, a.job_id) < std::tuple(b.run_at, b.job_id));
	}
}

TEST(Hint, IsComparedByTheRightKeyAlone)
{
	pgq::Hint urgent_late{.key = {5, 20, 1}, .place = {1, 1, 1}, .delayed = true, .group = 0};
	pgq::Hint normal_early{.key = {0, 10, 2}, .place = {}, .delayed = false, .group = 0};
	EXPECT_TRUE(pgq::ByKey::less(urgent_late, normal_early));
	EXPECT_FALSE(pgq::ByKey::less(normal_early, urgent_late));
	EXPECT_TRUE(pgq::ByRunAt::less(normal_early, urgent_late));
	EXPECT_FALSE(pgq::ByRunAt::less(urgent_late, normal_early));

	pgq::Hint elsewhere = urgent_late;
	elsewhere.place = {9, 9, 2};
	EXPECT_FALSE(pgq::ByKey::less(urgent_late, elsewhere) ||
				 pgq::ByKey::less(elsewhere, urgent_late));
	EXPECT_EQ(urgent_late.timer_key(), (TimerKey{20, 1}));
}

} // namespace
