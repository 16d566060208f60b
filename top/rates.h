/* Values that are computed from several looks: rates, and the number of jobs over time. */
#pragma once

#include "snapshot.h"

namespace top {

/*
 * Return by how much a counter grew per second; nothing if a value is unknown, or if the counter is
 * smaller than before because it was reset.
 */
std::optional<double> rate_of(Count before, Count now, double seconds);

struct QueueRates
{
	std::optional<double> enqueued, handed_out, acked;
};

/* Remembers the values of earlier looks, for each queue. */
class Memory
{
public:
	void add(const Snapshot &snapshot);

	QueueRates rates_of(const std::string &queue) const;
	/* Return the number of live jobs at each look, from old to new. */
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
