#include "core/topic_match.h"

#include <bitset>

namespace pgq {

/* Return the text up to the first dot. string_view::substr() may throw, which needs libstdc++. */
static std::string_view
first_word(std::string_view text)
{
	return {text.data(), std::min(text.find('.'), text.size())};
}

static std::string_view
word_at(std::string_view pattern, int at)
{
	pattern.remove_prefix(static_cast<size_t>(at));
	return first_word(pattern);
}

std::string_view
take_word(std::string_view *rest, bool *done)
{
	std::string_view word = first_word(*rest);
	*done = word.size() == rest->size();
	rest->remove_prefix(*done ? word.size() : word.size() + 1);
	return word;
}

PatternFault
check_pattern(std::string_view pattern, std::string_view *word)
{
	if (pattern.size() > kMaxTopicLength)
		return PatternFault::kTooLong;
	int hashes = 0;
	for (bool done = pattern.empty(); !done;)
	{
		*word = take_word(&pattern, &done);
		if (word->size() > 1 && word->find_first_of("*#") != std::string_view::npos)
			return PatternFault::kWildcardInWord;
		hashes += *word == "#";
	}
	return hashes > kMaxHashes ? PatternFault::kTooManyHashes : PatternFault::kNone;
}

/* A dot counts as the smallest byte. So `a.b` comes before `a!`, beside the other patterns with the word a. */
bool
pattern_less(std::string_view a, std::string_view b)
{
	auto rank = [](char c) { return c == '.' ? 0 : static_cast<unsigned char>(c); };
	return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
										[&](char x, char y) { return rank(x) < rank(y); });
}

bool
find_child(const std::string_view *patterns, const TopicNode &node, std::string_view word,
		   TopicNode *child)
{
	const std::string_view *begin = patterns + node.begin;
	const std::string_view *end = patterns + node.end;
	/* Patterns that have no more words come first. */
	begin =
		std::partition_point(begin, end, [&](std::string_view p) { return ends_at(p, node.at); });
	begin = std::partition_point(begin, end,
								 [&](std::string_view p) { return word_at(p, node.at) < word; });
	end = std::partition_point(begin, end,
							   [&](std::string_view p) { return word_at(p, node.at) == word; });
	*child = {static_cast<int>(begin - patterns), static_cast<int>(end - patterns),
			  node.at + static_cast<int>(word.size()) + 1, false};
	return begin != end;
}

static bool
matches_one(std::string_view pattern, std::string_view text, WordsOf words)
{
	bool matched = false;
	NodesOfOnePattern nodes;
	NodesOfOnePattern next;
	match_topic(
		&pattern, 1, text, &nodes, &next, [&](int) { matched = true; }, words);
	return matched;
}

bool
topic_matches(std::string_view pattern, std::string_view topic)
{
	return matches_one(pattern, topic, WordsOf::kTopic);
}

bool
pattern_contains(std::string_view outer, std::string_view inner)
{
	return matches_one(outer, inner, WordsOf::kPattern);
}

/* ---- overlap ---- */

namespace {

struct PatternWords
{
	explicit PatternWords(std::string_view pattern)
	{
		for (bool done = pattern.empty(); !done;)
			words[n++] = take_word(&pattern, &done);
	}

	std::array<std::string_view, kMaxTopicLength + 1> words;
	size_t n = 0;
};

} // namespace

/*
 * Go back from the ends of both patterns. Bit j of a row: the words of `a` from i on and those of `b` from j on
 * match a common text. A `#` either matches nothing more, or also the next word of the other pattern.
 */
bool
patterns_overlap(std::string_view a, std::string_view b)
{
	using Row = std::bitset<kMaxTopicLength + 2>;
	PatternWords first(a);
	PatternWords second(b);
	Row below; /* the row of i + 1 */
	for (size_t i = first.n + 1; i-- > 0;)
	{
		Row row;
		for (size_t j = second.n + 1; j-- > 0;)
		{
			bool a_ended = i == first.n;
			bool b_ended = j == second.n;
			std::string_view x = a_ended ? "" : first.words[i];
			std::string_view y = b_ended ? "" : second.words[j];
			bool a_hash = !a_ended && x == "#";
			bool b_hash = !b_ended && y == "#";
			row[j] = (a_ended && b_ended) || (a_hash && (below[j] || (!b_ended && row[j + 1]))) ||
					 (b_hash && (row[j + 1] || (!a_ended && below[j]))) ||
					 (!a_ended && !b_ended && !a_hash && !b_hash &&
					  (x == y || x == "*" || y == "*") && below[j + 1]);
		}
		below = row;
	}
	return below[0];
}

} // namespace pgq
