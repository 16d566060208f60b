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

/* State of a look. `relations` decides which queries are possible. */
struct Sight
{
	Snapshot snapshot;
	Relations relations;
};

struct Question
{
	/* subject of the question, as notes name it */
	const char *subject;
	/*
	 * Returns the query. If the query is not possible, adds a note that says why, and returns an
	 * empty text.
	 */
	std::string (*sql)(Sight &);
	void (*read)(const Answer &, Sight &);
};

/*
 * The questions in the order in which they are asked. If server_question fails, no further question
 * is asked.
 */
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
/*
 * Seconds to wait for an answer: longer than the statement timeout, so that no answer means that
 * the network is down.
 */
constexpr double kPatience = kSecondsForLooking + 10;

/* Highest numbers of rows that are read of the two lists that can be long. */
constexpr int kMostLeases = 1000;
constexpr int kMostDeadLetters = 500;

} // namespace top
