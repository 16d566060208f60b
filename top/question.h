/* The queries of a look, and how their answers are read. */
#pragma once

#include "link.h"
#include "snapshot.h"

namespace top {

/*
 * The relations of schema pgq_ext that are asked, with their columns, and whether the role may read
 * each column.
 */
using Relations = std::map<std::string, std::map<std::string, bool>>;

/* State of a look. The relations decide what can be asked. */
struct Sight
{
	Snapshot snapshot;
	Relations relations;
};

struct Question
{
	/* name of what is asked, for notes */
	const char *subject;
	/* Return the query; empty: it cannot be asked, and a note says why. */
	std::string (*sql)(Sight &);
	void (*read)(const Answer &, Sight &);
};

/* The first one is about the server: if it fails, nothing else is asked. */
extern const Question server_question, relations_question, functions_question;
extern const Question queue_question, status_question, stats_question, health_question;
extern const Question lease_question, dead_question;

/*
 * Wrap the query in a read-only transaction with a time limit and a search path without objects of
 * users.
 */
std::string looking(const std::string &sql);

/* Statement timeout of a question, in seconds. */
constexpr int kSecondsForLooking = 10;
/* Longer than that statement timeout: after it the network must be down. */
constexpr double kPatience = kSecondsForLooking + 10;

/* At most that many rows are read of the long lists. */
constexpr int kMostLeases = 1000;
constexpr int kMostDeadLetters = 500;

} // namespace top
