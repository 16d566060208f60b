/* The queries of a look, and how their answers are read. */
#pragma once

#include "link.h"
#include "snapshot.h"

namespace top {

/*
 * The relations of schema pgq_ext that are queried: their columns, and whether the role may read
 * each column.
 */
using Relations = std::map<std::string, std::map<std::string, bool>>;

/* State of a look. The relations decide which queries are possible. */
struct Sight
{
	Snapshot snapshot;
	Relations relations;
};

struct Question
{
	/* what the question is about, for notes */
	const char *subject;
	/* Returns the query; empty if it is not possible, and then a note says why. */
	std::string (*sql)(Sight &);
	void (*read)(const Answer &, Sight &);
};

/* The first question is about the server: if it fails, no other is asked. */
extern const Question server_question, relations_question, functions_question;
extern const Question queue_question, status_question, stats_question, health_question;
extern const Question lease_question, dead_question;

/*
 * Wrap the query in a read-only transaction with a time limit and a search path without objects of
 * users.
 */
std::string looking(const std::string &sql);

/* Statement timeout of the queries, in seconds. */
constexpr int kSecondsForLooking = 10;
/* Longer than the statement timeout: if there is no answer by then, the network is down. */
constexpr double kPatience = kSecondsForLooking + 10;

/* Most rows that are read of the long lists. */
constexpr int kMostLeases = 1000;
constexpr int kMostDeadLetters = 500;

} // namespace top
