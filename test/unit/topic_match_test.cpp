/*
 * Tests of topics and patterns. The results are compared with the definition, which is written down as a
 * recursive function, and with the cases that RabbitMQ tests.
 */
#include "core/topic_match.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace pgq;

std::vector<std::string>
words_of(std::string_view text)
{
	std::vector<std::string> words;
	if (text.empty())
		return words;
	for (size_t dot; (dot = text.find('.')) != std::string_view::npos; text.remove_prefix(dot + 1))
		words.emplace_back(text.substr(0, dot));
	words.emplace_back(text);
	return words;
}

using Words = std::vector<std::string>;

/* The definition: do the words of the pattern from p on match those of the topic from t on? */
bool
by_definition(const Words &pattern, size_t p, const Words &topic, size_t t)
{
	if (p == pattern.size())
		return t == topic.size();
	if (pattern[p] == "#")
		return by_definition(pattern, p + 1, topic, t) ||
			   (t < topic.size() && by_definition(pattern, p, topic, t + 1));
	return t < topic.size() && (pattern[p] == "*" || pattern[p] == topic[t]) &&
		   by_definition(pattern, p + 1, topic, t + 1);
}

bool
by_definition(std::string_view pattern, std::string_view topic)
{
	return by_definition(words_of(pattern), 0, words_of(topic), 0);
}

/* Return the patterns that match, found by match_topic() among all. */
std::multiset<std::string>
route(const std::vector<std::string> &all, std::string_view topic)
{
	std::vector<std::string_view> sorted(all.begin(), all.end());
	std::sort(sorted.begin(), sorted.end(), pattern_less);
	std::vector<TopicNode> nodes;
	std::vector<TopicNode> next;
	std::multiset<std::string> found;
	match_topic(sorted.data(), static_cast<int>(sorted.size()), topic, &nodes, &next,
				[&](int i) { found.emplace(sorted[static_cast<size_t>(i)]); });
	return found;
}

std::string
random_text(std::mt19937 &random, const std::vector<std::string> &words, unsigned most)
{
	std::string text;
	unsigned n = static_cast<unsigned>(random()) % (most + 1);
	for (unsigned i = 0; i < n; i++)
		text += (i == 0 ? "" : ".") + words[random() % words.size()];
	return text;
}

const std::vector<std::string> kTopicWords = {"a", "b", "", "ab", "a-b", "#", "*", "\xc3\xa9"};
const std::vector<std::string> kPatternWords = {"a", "b", "",  "ab", "a-b",
												"#", "#", "*", "*",	 "\xc3\xa9"};

TEST(Topics, CasesOfRabbitMq)
{
	std::map<std::string, std::string> patterns = {{"1", "a.b.c"},
												   {"2", "a.*.c"},
												   {"3", "a.#.b"},
												   {"4", "a.b.b.c"},
												   {"5", "#"},
												   {"6", "#.#"},
												   {"7", "#.b"},
												   {"8", "*.*"},
												   {"9", "a.*"},
												   {"10", "*.b.c"},
												   {"11", "a.#"},
												   {"12", "a.#.#"},
												   {"13", "b.b.c"},
												   {"14", "a.b.b"},
												   {"15", "a.b"},
												   {"16", "b.c"},
												   {"17", ""},
												   {"18", "*.*.*"},
												   {"19", "vodka.martini"},
												   {"20", "a.b.c"},
												   {"21", "*.#"},
												   {"22", "#.*.#"},
												   {"23", "*.#.#"},
												   {"24", "#.#.#"},
												   {"25", "*"},
												   {"26", "#.b.#"},
												   {"27", "args-test"}};
	std::map<std::string, std::string> topics = {{"a.b.c", "1 2 5 6 10 11 12 18 20 21 22 23 24 26"},
												 {"a.b", "3 5 6 7 8 9 11 12 15 21 22 23 24 26"},
												 {"a.b.b", "3 5 6 7 11 12 14 18 21 22 23 24 26"},
												 {"", "5 6 17 24"},
												 {"b.c.c", "5 6 18 21 22 23 24 26"},
												 {"a.a.a.a.a", "5 6 11 12 21 22 23 24"},
												 {"vodka.gin", "5 6 8 21 22 23 24"},
												 {"vodka.martini", "5 6 8 19 21 22 23 24"},
												 {"b.b.c", "5 6 10 13 18 21 22 23 24 26"},
												 {"nothing.here.at.all", "5 6 21 22 23 24"},
												 {"oneword", "5 6 21 22 23 24 25"},
												 {"args-test", "5 6 21 22 23 24 25 27"}};
	std::vector<std::string> all;
	for (const auto &[number, pattern] : patterns)
		all.push_back(pattern);
	for (const auto &[topic, numbers] : topics)
	{
		std::multiset<std::string> expected;
		size_t begin = 0;
		for (size_t end; begin < numbers.size(); begin = end + 1)
		{
			end = std::min(numbers.find(' ', begin), numbers.size());
			expected.insert(patterns.at(numbers.substr(begin, end - begin)));
		}
		EXPECT_EQ(route(all, topic), expected) << topic;
	}
}

TEST(Topics, Edges)
{
	struct
	{
		const char *pattern;
		const char *topic;
		bool matches;
	} cases[] = {{"logs.#", "logs", true},
				 {"logs.#", "logs.a.b", true},
				 {"#.logs", "logs", true},
				 {"*", "", false},
				 {"#", "", true},
				 {"*.#", "", false},
				 {"a.*", "a", false},
				 {"a.*", "a.", true},
				 {"a.*.b", "a..b", true},
				 {"a.b", "a..b", false},
				 {"a.#.b", "a.b", true},
				 {"#", "a..b", true},
				 {"*", "*", true},
				 {"*.*", ".", true},
				 {"A", "a", false},
				 {"a.#.#.b", "a.b", true},
				 {"#.a.#", "b.a", true},
				 {"#.a.#", "b", false},
				 {"*.a.#", "a", false},
				 {"a", "#", false},
				 {"#", "#", true},
				 {"*", "#", true},
				 {".", "", false},
				 {".", ".", true},
				 {"a.b", "a!.b", false},
				 {"a!.b", "a!.b", true},
				 {"", "", true}};
	for (const auto &c : cases)
	{
		EXPECT_EQ(topic_matches(c.pattern, c.topic), c.matches) << c.pattern << " " << c.topic;
		EXPECT_EQ(by_definition(c.pattern, c.topic), c.matches) << c.pattern << " " << c.topic;
	}
}

TEST(Topics, RandomPatternsMatchByDefinition)
{
	std::mt19937 random(1);
	for (int round = 0; round < 1000; round++)
	{
		std::vector<std::string> all;
		for (int i = 0; i < 100; i++)
			all.push_back(random_text(random, kPatternWords, 6));
		for (int i = 0; i < 10; i++)
		{
			std::string topic = random_text(random, kTopicWords, 6);
			std::multiset<std::string> expected;
			for (const std::string &pattern : all)
				if (by_definition(pattern, topic))
					expected.insert(pattern);
			ASSERT_EQ(route(all, topic), expected) << topic;
		}
		std::string topic = random_text(random, kTopicWords, 6);
		for (const std::string &pattern : all)
			ASSERT_EQ(topic_matches(pattern, topic), by_definition(pattern, topic))
				<< pattern << " " << topic;
	}
}

/* A pattern that has as many words as fit, and a topic that makes as many of them wait as possible. */
TEST(Topics, LongestPatterns)
{
	std::string dots(kMaxTopicLength, '.');
	EXPECT_TRUE(topic_matches(dots, dots));
	EXPECT_FALSE(topic_matches(dots, dots.substr(1)));
	std::string stars = "#.#.#.#.#.#.#.#";
	while (stars.size() + 2 <= kMaxTopicLength)
		stars += ".*";
	EXPECT_TRUE(topic_matches(stars, dots));
	EXPECT_FALSE(topic_matches(stars + ".a", dots));
	std::string hashes = "#";
	for (int i = 1; i < kMaxHashes; i++)
		hashes += ".a.#";
	std::string topic = "a";
	while (topic.size() + 2 <= kMaxTopicLength)
		topic += ".a";
	EXPECT_TRUE(topic_matches(hashes, topic));
	EXPECT_FALSE(topic_matches(hashes + ".b", topic));
}

/* pattern_contains() is never wrongly true, and is true where a pattern is compared with itself or `#`. */
TEST(Topics, Containment)
{
	std::mt19937 random(2);
	std::vector<std::string> topics;
	for (int i = 0; i < 300; i++)
		topics.push_back(random_text(random, {"a", "b", ""}, 5));
	int contained = 0;
	for (int i = 0; i < 30000; i++)
	{
		std::string outer = random_text(random, {"a", "b", "#", "*", ""}, 4);
		std::string inner = random_text(random, {"a", "b", "#", "*", ""}, 4);
		EXPECT_TRUE(pattern_contains(inner, inner)) << inner;
		EXPECT_TRUE(pattern_contains("#", inner)) << inner;
		if (!pattern_contains(outer, inner))
			continue;
		contained++;
		for (const std::string &topic : topics)
			ASSERT_TRUE(!by_definition(inner, topic) || by_definition(outer, topic))
				<< outer << " " << inner << " " << topic;
	}
	EXPECT_GT(contained, 3000);
	EXPECT_TRUE(pattern_contains("a.*", "a.b"));
	EXPECT_TRUE(pattern_contains("a.#", "a.*.b"));
	EXPECT_TRUE(pattern_contains("a.#", "a.#"));
	EXPECT_FALSE(pattern_contains("a.*", "a.#"));
	EXPECT_FALSE(pattern_contains("*", "#"));
	EXPECT_FALSE(pattern_contains("a.b", "a.*"));
}

/* Two patterns overlap if one of all topics of up to six words matches both. */
TEST(Topics, Overlap)
{
	std::mt19937 random(3);
	std::vector<std::string> topics = {""};
	for (size_t begin = 0, words = 1; words <= 6; words++)
		for (size_t end = topics.size(); begin < end; begin++)
			for (const char *word : {"a", "b", "c"})
				topics.push_back(topics[begin] + (words == 1 ? "" : ".") + word);
	int overlaps = 0;
	for (int i = 0; i < 1000; i++)
	{
		std::string a = random_text(random, {"a", "b", "#", "*"}, 3);
		std::string b = random_text(random, {"a", "b", "#", "*"}, 3);
		bool expected = std::any_of(topics.begin(), topics.end(), [&](const std::string &topic) {
			return by_definition(a, topic) && by_definition(b, topic);
		});
		ASSERT_EQ(patterns_overlap(a, b), expected) << a << " " << b;
		overlaps += expected;
	}
	EXPECT_GT(overlaps, 100);
	EXPECT_LT(overlaps, 900);
	std::string dots(kMaxTopicLength, '.');
	EXPECT_TRUE(patterns_overlap(dots, "#"));
	EXPECT_FALSE(patterns_overlap(dots, dots.substr(1)));
}

TEST(Topics, FaultsOfPatterns)
{
	std::string_view word;
	EXPECT_EQ(check_pattern("a.*.#..b", &word), PatternFault::kNone);
	EXPECT_EQ(check_pattern("", &word), PatternFault::kNone);
	EXPECT_EQ(check_pattern("a.log*.b", &word), PatternFault::kWildcardInWord);
	EXPECT_EQ(word, "log*");
	EXPECT_EQ(check_pattern("##", &word), PatternFault::kWildcardInWord);
	EXPECT_EQ(check_pattern(std::string(255, 'a'), &word), PatternFault::kNone);
	EXPECT_EQ(check_pattern(std::string(256, 'a'), &word), PatternFault::kTooLong);
	EXPECT_EQ(check_pattern("#.#.#.#.#.#.#.#", &word), PatternFault::kNone);
	EXPECT_EQ(check_pattern("#.#.#.#.#.#.#.#.#", &word), PatternFault::kTooManyHashes);
}

} // namespace
