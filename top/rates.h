/* What two looks say that one does not: how much came a second, and how the jobs went over time. */
#pragma once

#include "snapshot.h"

namespace top {

/*
 * How fast a counter went up. Unknown if it was not known both times, or began anew between them: it is
 * of another time (since), or smaller than it was.
 */
std::optional<double> rate_of(Count before, Count now, double seconds);

struct QueueRates
{
	std::optional<double> enqueued, handed_out, acked;
};

/* Remembers what was seen of each queue. */
class Memory
{
public:
	void add(const Snapshot &snapshot);

	QueueRates rates_of(const std::string &queue) const;
	/* How many jobs there were, oldest look first. */
	const std::vector<Count> &jobs_of(const std::string &queue) const;

private:
	struct Seen
	{
		Queue queue;
		QueueRates rates;
		std::vector<Count> jobs;
	};
	std::map<std::string, Seen> queues;
	double counted_at = 0;
};

} // namespace top
