#include "core/ordered_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace {

/* Values with the same number are equal; the label shows which of two equal values was kept. */
struct Value
{
	int number;
	int label;
};

struct ByNumber
{
	static bool less(const Value &a, const Value &b) { return a.number < b.number; }
};

using Set = pgq::OrderedSet<Value, ByNumber>;

std::vector<int>
numbers(const Set &set)
{
	std::vector<int> result;
	set.for_each([&](const Value &v) { result.push_back(v.number); });
	return result;
}

TEST(OrderedSet, KeepsTheLastOfEqualValues)
{
	Set::Node storage[3];
	Set set;
	set.init(storage, 3);
	EXPECT_TRUE(set.insert({7, 1}));
	EXPECT_FALSE(set.insert({7, 2}));
	EXPECT_EQ(set.size(), 1u);
	EXPECT_EQ(set.min().label, 2);
}

/* The set has room for exactly its capacity, and every node can be reused any number of times. */
TEST(OrderedSet, OfOneElement)
{
	Set::Node storage[1];
	Set set;
	set.init(storage, 1);
	for (int i = 0; i < 100; i++)
	{
		EXPECT_TRUE(set.empty());
		ASSERT_TRUE(set.insert({i, 0}));
		EXPECT_TRUE(set.full());
		EXPECT_EQ(set.min().number, i);
		EXPECT_EQ(set.max().number, i);
		EXPECT_EQ((i % 2 ? set.pop_min() : set.pop_max()).number, i);
	}
}

TEST(OrderedSet, KnowsItsGreatestSize)
{
	Set::Node storage[3];
	Set set;
	set.init(storage, 3);
	EXPECT_EQ(set.peak(), 0u);
	(void) set.insert({1, 0});
	EXPECT_EQ(set.peak(), 1u);
	(void) set.insert({2, 0});
	(void) set.insert({2, 1});
	EXPECT_EQ(set.peak(), 2u);
	set.clear();
	(void) set.insert({3, 0});
	EXPECT_EQ(set.peak(), 2u);
}

TEST(OrderedSet, ClearMakesAllNodesFree)
{
	Set::Node storage[4];
	Set set;
	set.init(storage, 4);
	for (int round = 0; round < 3; round++)
	{
		for (int i = 0; i < 4; i++)
			ASSERT_TRUE(set.insert({i, 0}));
		set.pop_max();
		set.clear();
		EXPECT_TRUE(set.empty());
		EXPECT_EQ(numbers(set), std::vector<int>{});
	}
	EXPECT_EQ(set.capacity(), 4u);
}

TEST(OrderedSet, AgreesWithStdSet)
{
	for (unsigned seed = 1; seed <= 20; seed++)
	{
		SCOPED_TRACE(seed);
		std::mt19937 random(seed);
		uint32_t capacity = 1 + random() % 40;
		std::vector<Set::Node> storage(capacity);
		Set set;
		set.init(storage.data(), capacity);
		std::set<int> expected;
		for (int step = 0; step < 5000; step++)
		{
			int number = random() % (2 * capacity);
			switch (random() % 8)
			{
				case 0:
					if (!set.empty())
					{
						ASSERT_EQ(set.pop_min().number, *expected.begin());
						expected.erase(expected.begin());
					}
					break;
				case 1:
					if (!set.empty())
					{
						ASSERT_EQ(set.pop_max().number, *expected.rbegin());
						expected.erase(std::prev(expected.end()));
					}
					break;
				case 2:
					if (random() % 100 == 0)
					{
						set.clear();
						expected.clear();
					}
					break;
				default:
					if (!set.full())
					{
						ASSERT_EQ(set.insert({number, step}), expected.insert(number).second);
					}
					break;
			}
			ASSERT_EQ(set.size(), expected.size());
			ASSERT_EQ(set.full(), expected.size() == capacity);
			if (!expected.empty())
			{
				ASSERT_EQ(set.min().number, *expected.begin());
				ASSERT_EQ(set.max().number, *expected.rbegin());
			}
			ASSERT_EQ(numbers(set), std::vector<int>(expected.begin(), expected.end()));
		}
	}
}

} // namespace
