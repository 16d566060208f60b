/*
 * A look: one round of queries for all data that the program shows. Each query runs in a
 * transaction of its own.
 */
#pragma once

#include "question.h"

namespace top {

/*
 * Parts of the data that only some screens show. These parts are optional, since reading them takes
 * longer the more rows there are.
 */
struct Parts
{
	bool leases = false;
	bool dead_letters = false;
};

class Look
{
public:
	explicit Look(Parts parts);

	/* Return the next statement to send; empty: the look has ended. */
	std::string next();
	/* Take the answer to the last statement. */
	void take(const Answer &answer);

	/* Return the data, after the look has ended. */
	Snapshot take_snapshot() { return std::move(sight.snapshot); }

private:
	std::vector<const Question *> questions;
	size_t asked = 0;
	Sight sight;
};

} // namespace top
