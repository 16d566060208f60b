/* One look at the server: question after question, each in a transaction of its own. */
#pragma once

#include "question.h"

namespace top {

/* What only some screens show, and takes the longer the more there is. */
struct Parts
{
	bool leases = false;
	bool dead_letters = false;
};

class Look
{
public:
	explicit Look(Parts parts);

	/* The statement to send; empty: the look is over. */
	std::string next();
	/* The answer to it. */
	void take(const Answer &answer);

	/* When it is over. */
	Snapshot take_snapshot() { return std::move(sight.snapshot); }

private:
	std::vector<const Question *> questions;
	size_t asked = 0;
	Sight sight;
};

} // namespace top
