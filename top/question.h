/* The questions of a look: each has a query, and a function that reads the answer. */
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
	/*
	 * what the question reads, such as pgq_ext.queue; named in the note that is added if the query
	 * fails
	 */
	const char *subject;
	/*
	 * Returns the query. If the query is not possible, adds a note that says why, and returns an
	 * empty text.
	 */
	std::string (*sql)(Sight &);
	void (*read)(const Answer &, Sight &);
};

/*
 * The questions in the order in which they are asked. If server_question fails, or finds that the
 * role cannot use the extension, no further question is asked.
 */
extern const Question server_question, relations_question, functions_question;
extern const Question queue_question, status_question, stats_question, health_question;
extern const Question handler_question, batch_question;
extern const Question lease_question, dead_question;

/*
 * Wrap the query in a read-only transaction with a time limit and a search path without objects of
 * users.
 */
std::string looking(const std::string &sql);

/* Statement timeout of the queries, in seconds. */
constexpr int kSecondsForLooking = 10;
/*
 * Seconds to wait for an answer. Longer than the statement timeout, so that a missing answer means
 * that the network is down.
 */
constexpr double kPatience = kSecondsForLooking + 10;

/* The most rows that a look reads of each of the two lists that can be long. */
constexpr int kMostLeases = 1000;
constexpr int kMostDeadLetters = 500;
constexpr int kMostBatches = 500;

} // namespace top
