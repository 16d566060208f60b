#include "rates.h"

namespace top {

namespace {

/* Number of samples that are kept for each queue: the width of the widest sparkline. */
constexpr size_t kSamples = 120;

QueueRates
rates_between(const Queue &before, const Queue &now, double seconds)
{
	if (before.stats_since != now.stats_since)
		return {};
	auto rate = [&](const char *counter) {
		return rate_of(before.counter(counter), now.counter(counter), seconds);
	};
	return {rate("enqueued"), rate("handed_out"), rate("acked")};
}

} // namespace

std::optional<double>
rate_of(Count before, Count now, double seconds)
{
	if (!before || !now || *now < *before || seconds <= 0)
		return {};
	return static_cast<double>(*now - *before) / seconds;
}

void
Memory::add(const Snapshot &snapshot)
{
	double seconds = snapshot.counted_at - counted_at;
	std::map<std::string, Seen> seen_now;
	for (const auto &[name, queue] : snapshot.queues)
	{
		Seen &seen = seen_now[name];
		if (auto before = queues.find(name); before != queues.end())
		{
			seen = std::move(before->second);
			seen.rates = rates_between(seen.queue, queue, seconds);
		}
		seen.queue = queue;
		if (seen.jobs.size() == kSamples)
			seen.jobs.erase(seen.jobs.begin());
		seen.jobs.push_back(queue.jobs());
	}
	queues = std::move(seen_now);
	counted_at = snapshot.counted_at;
}

QueueRates
Memory::rates_of(const std::string &queue) const
{
	auto seen = queues.find(queue);
	return seen == queues.end() ? QueueRates{} : seen->second.rates;
}

const std::vector<Count> &
Memory::jobs_of(const std::string &queue) const
{
	static const std::vector<Count> none;
	auto seen = queues.find(queue);
	return seen == queues.end() ? none : seen->second.jobs;
}

} // namespace top
