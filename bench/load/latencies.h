// The times from the enqueue of a job to the claim that returns the job. Each job has a name of its
// own.
#pragma once

#include "basics.h"
#include <algorithm>
#include <cstdio>
#include <unordered_map>
#include <utility>
#include <vector>

template <typename Id> class Latencies
{
public:
	void committed(const Id &id, Time sent)
	{
		auto &times = open[id];
		times.sent = sent;
		note(id, times.committed);
	}
	void claimed(const Id &id) { note(id, open[id].claimed); }

	// Print one result in each line: metric, tab, milliseconds. The first warm_up jobs do not
	// count, but at least half of the jobs do.
	void print(size_t warm_up)
	{
		print("commit", from_commit, warm_up);
		print("send", from_send, warm_up);
	}

private:
	struct Times
	{
		Time sent, committed, claimed;
	};

	// Note one of the two times of a job. That of the claim may be noted before that of the
	// enqueue.
	void note(const Id &id, Time &what)
	{
		what = Clock::now();
		auto &times = open[id];
		if (times.committed == Time() || times.claimed == Time())
			return;
		using Milliseconds = std::chrono::duration<double, std::milli>;
		from_commit.push_back(Milliseconds(times.claimed - times.committed).count());
		from_send.push_back(Milliseconds(times.claimed - times.sent).count());
		open.erase(id);
	}
	static void print(const char *name, std::vector<double> &all, size_t warm_up)
	{
		all.erase(all.begin(), all.begin() + std::min(warm_up, all.size() / 2));
		std::sort(all.begin(), all.end());
		for (auto [label, part] :
			 {std::pair("p50", 0.5), {"p95", 0.95}, {"p99", 0.99}, {"max", 1.0}})
			printf("%s_%s\t%.3f\n", name, label,
				   all[std::min<size_t>(all.size() * part, all.size() - 1)]);
	}

	std::unordered_map<Id, Times> open;
	std::vector<double> from_commit, from_send;
};
