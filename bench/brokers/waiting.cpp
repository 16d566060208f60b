#include "race.h"
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

namespace {

struct Times
{
	Time sent, committed, claimed;
};

class Waiting
{
public:
	Waiting(Connect connect, const Arguments &arguments)
		: rate(arguments.number("rate", 100)),
		  warm_up(arguments.number("warm_up", 0)),
		  length(arguments.number("warm_up", 0) + arguments.number("seconds", 1)),
		  jobs(length.count() * rate)
	{
		for (long i = arguments.number("producers", 8); i > 0; i--)
			producers.push_back(connect(arguments));
		for (long i = arguments.number("clients", 16); i > 0; i--)
			workers.push_back(connect(arguments));
	}

	void run()
	{
		std::vector<std::thread> threads;
		begin = Clock::now() + std::chrono::milliseconds(20);
		for (auto &worker : workers)
			threads.emplace_back([&] { claim(*worker); });
		for (auto &producer : producers)
			threads.emplace_back([&] { enqueue(*producer); });
		for (auto &thread : threads)
			thread.join();
		printf("rate\t%.0f\n", jobs / Seconds(last - begin).count());
		printf("done\t%ld\n", jobs);
		percentiles("commit", from_commit);
		percentiles("send", from_send);
	}

private:
	// Each job has a time to be sent, and goes with the producer that is free.
	void enqueue(Broker &broker)
	{
		for (long number; (number = next++) < jobs;)
		{
			std::this_thread::sleep_until(
				begin + std::chrono::duration_cast<Clock::duration>(Seconds(number / rate)));
			Time sent = Clock::now();
			broker.enqueue({number});
			note(number, &Times::committed, sent);
		}
	}
	void claim(Broker &broker)
	{
		const Time given_up =
			begin + std::chrono::duration_cast<Clock::duration>(length) + std::chrono::seconds(30);
		for (std::vector<long> numbers; acknowledged < jobs;)
		{
			if (Clock::now() > given_up)
				fail("jobs are not claimed");
			if (!broker.claim(1, numbers))
				continue;
			note(numbers[0], &Times::claimed);
			broker.ack();
			acknowledged++;
		}
	}
	// The claim of a job can be heard of before its enqueue is.
	void note(long number, Time Times::*what, Time sent = {})
	{
		std::lock_guard hold(lock);
		auto &times = open[number];
		times.*what = last = Clock::now();
		if (sent != Time())
			times.sent = sent;
		if (times.committed == Time() || times.claimed == Time())
			return;
		using Milliseconds = std::chrono::duration<double, std::milli>;
		from_commit.push_back(Milliseconds(times.claimed - times.committed).count());
		from_send.push_back(Milliseconds(times.claimed - times.sent).count());
		open.erase(number);
	}
	void percentiles(const char *name, std::vector<double> &all)
	{
		all.erase(all.begin(), all.begin() + std::min<size_t>(warm_up * rate, all.size() / 2));
		std::sort(all.begin(), all.end());
		for (auto [label, part] :
			 {std::pair("p50", 0.5), {"p95", 0.95}, {"p99", 0.99}, {"max", 1.0}})
			printf("%s_%s\t%.3f\n", name, label,
				   all[std::min<size_t>(all.size() * part, all.size() - 1)]);
	}

	const double rate, warm_up;
	const Seconds length;
	const long jobs;
	std::vector<std::unique_ptr<Broker>> producers, workers;
	Time begin, last;
	std::atomic<long> next = 0, acknowledged = 0;

	std::mutex lock;
	std::unordered_map<long, Times> open;
	std::vector<double> from_commit, from_send; // ms
};

} // namespace

void
run_waiting(Connect connect, const Arguments &arguments)
{
	Waiting(connect, arguments).run();
}
