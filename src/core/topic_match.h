/*
 * Topics and the patterns that select them, as in a topic exchange of AMQP 0-9-1.
 *
 * A topic is a text of words with dots between them, for example `order.eu.paid`. The empty text has
 * no words. Words may be empty: `a..b` has an empty word in the middle, `a.` has one at its end.
 *
 * A pattern is such a text, too. In a pattern the word `*` matches exactly one word of a topic, which may
 * be empty, and the word `#` matches any number of words, or none. Every other word matches the same
 * word only; bytes are compared. In a topic, `*` and `#` are words like others.
 *
 * Many patterns are matched at once. They are sorted, so the patterns that begin with the same words are
 * neighbours, and the sorted array is a trie: a range of patterns, together with the number of bytes that
 * they have in common, is a node. A match keeps the set of nodes that match the words of the topic
 * so far. Its cost is proportional to the number of words, the size of the set, and the logarithm of the
 * number of patterns. It does not depend on how many `#` a pattern has, as backtracking would.
 */
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>

namespace pgq {

constexpr size_t kMaxTopicLength = 255; /* bytes, of topics and of patterns */
constexpr int kMaxHashes = 8;			/* words `#` in a pattern */

enum class PatternFault
{
	kNone,
	kTooLong,
	kWildcardInWord, /* such as `log*`, which would match only the word `log*` */
	kTooManyHashes,
};

/* Check a pattern. *word: for kWildcardInWord, the wrong word. */
PatternFault check_pattern(std::string_view pattern, std::string_view *word);

/* The order in which match_topic() wants the patterns: patterns that begin with the same words are
 * neighbours. */
bool pattern_less(std::string_view a, std::string_view b);

/* Return whether the pattern matches the topic. */
bool topic_matches(std::string_view pattern, std::string_view topic);

/*
 * Return whether all topics that `inner` matches are matched by `outer`. True is always right. Where
 * several `#` and `*` meet, the function may return false although the answer is true: `#.*` and `*.#`
 * match the same topics, but neither contains the other by this function.
 */
bool pattern_contains(std::string_view outer, std::string_view inner);

/* Return whether there is a topic that both patterns match. */
bool patterns_overlap(std::string_view a, std::string_view b);

/* ---- matching many patterns ---- */

/* A node: the patterns from `begin` up to `end`, which have the same first words. */
struct TopicNode
{
	int begin;
	int end;
	int at; /* where the next word of these patterns begins: the length of the first words with their dots */
	bool any; /* the last of these words is `#` */
};

/* What a word of the second text is: topics have plain words only. */
enum class WordsOf
{
	kTopic,
	kPattern,
};

/* Return whether the pattern has no word at this place. */
inline bool
ends_at(std::string_view pattern, int at)
{
	return at == 0 ? pattern.empty() : pattern.size() + 1 == static_cast<size_t>(at);
}

/* Set *child to the node below `node` for the word. Returns false if there is no such node. */
bool find_child(const std::string_view *patterns, const TopicNode &node, std::string_view word,
				TopicNode *child);

/* Take the next word off *rest. The caller knows that there is one; *done: it was the last. */
std::string_view take_word(std::string_view *rest, bool *done);

/*
 * A set of nodes with room for what one pattern needs: a pattern has at most 256 words, and each node
 * may be there twice until the set is tidied.
 */
struct NodesOfOnePattern
{
	void clear() { n = 0; }
	void push_back(const TopicNode &node) { nodes[n++] = node; }
	TopicNode *begin() { return nodes.data(); }
	TopicNode *end() { return nodes.data() + n; }
	[[nodiscard]] size_t size() const { return n; }
	TopicNode &operator[](size_t i) { return nodes[i]; }
	void resize(size_t size) { n = size; }

	std::array<TopicNode, 1024> nodes;
	size_t n = 0;
};

/* Add the nodes that are reached by a `#` that matches no word, and remove what is in the set twice. */
template <typename Nodes>
void
complete_nodes(const std::string_view *patterns, Nodes *nodes)
{
	TopicNode child;
	for (size_t i = 0; i < nodes->size(); i++)
		if (find_child(patterns, (*nodes)[i], "#", &child))
		{
			child.any = true;
			nodes->push_back(child);
		}
	auto place = [](const TopicNode &node) { return std::tuple(node.begin, node.at); };
	std::sort(nodes->begin(), nodes->end(),
			  [&](const TopicNode &a, const TopicNode &b) { return place(a) < place(b); });
	auto *last =
		std::unique(&*nodes->begin(), &*nodes->begin() + nodes->size(),
					[&](const TopicNode &a, const TopicNode &b) { return place(a) == place(b); });
	nodes->resize(static_cast<size_t>(last - &*nodes->begin()));
}

/*
 * Call found(i) for each pattern that matches the topic. The n patterns are sorted by pattern_less().
 * nodes, next: lists for nodes, such as std::vector<TopicNode>; what is in them before does not matter.
 */
template <typename Nodes, typename Found>
void
match_topic(const std::string_view *patterns, int n, std::string_view topic, Nodes *nodes,
			Nodes *next, Found found, WordsOf words = WordsOf::kTopic)
{
	/* Begin with all patterns. */
	nodes->clear();
	if (n == 0)
		return;
	/* Begin with all patterns. */
	nodes->push_back({0, n, 0, false});
	complete_nodes(patterns, nodes);
	/* For each word of the text, replace the nodes by those below them that match the word. */
	for (bool done = topic.empty(); !done && nodes->size() > 0; std::swap(nodes, next))
	{
		std::string_view word = take_word(&topic, &done);
		bool hash = word == "#";
		next->clear();
		for (size_t i = 0; i < nodes->size(); i++)
		{
			TopicNode child;
			if ((*nodes)[i].any)
				next->push_back((*nodes)[i]);
			if (!hash && find_child(patterns, (*nodes)[i], word, &child))
				next->push_back(child);
			if (word != "*" && !(hash && words == WordsOf::kPattern) &&
				find_child(patterns, (*nodes)[i], "*", &child))
				next->push_back(child);
		}
		if (next->size() > 0)
			complete_nodes(patterns, next);
	}
	/* The patterns that have no more words match. */
	for (size_t i = 0; i < nodes->size(); i++)
		for (int p = (*nodes)[i].begin; p < (*nodes)[i].end && ends_at(patterns[p], (*nodes)[i].at);
			 p++)
			found(p);
}

} // namespace pgq
