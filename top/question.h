/* What is asked of the server, and what the answers mean. */
#pragma once

#include "link.h"
#include "snapshot.h"

namespace top {

/* The relations of schema pgq_ext that are wanted, their columns, and whether these may be read. */
using Relations = std::map<std::string, std::map<std::string, bool>>;

/* What is collected while looking: the relations decide what can be asked. */
struct Sight
{
	Snapshot snapshot;
	Relations relations;
};

struct Question
{
	/* Of what it is, for notes. */
	const char *subject;
	/* Empty: it cannot be asked, which has been noted. */
	std::string (*sql)(Sight &);
	void (*read)(const Answer &, Sight &);
};

/* The first ones are about the server, and without an answer there is nothing more to ask. */
extern const Question server_question, relations_question, functions_question;
extern const Question queue_question, status_question, stats_question, health_question;
extern const Question lease_question, dead_question;

/* In a transaction of its own that only reads, with a time limit, and without objects of others. */
std::string looking(const std::string &sql);

/* How long a look may take, of the server's time, for each question. */
constexpr int kSecondsForLooking = 10;

/* So many rows are read of the long ones. */
constexpr int kMostLeases = 1000;
constexpr int kMostDeadLetters = 500;

} // namespace top
