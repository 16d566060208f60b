#include "../load/latencies.h"
#include "race.h"
#include <atomic>
#include <mutex>
#include <thread>

namespace {

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
		latencies.print(static_cast<size_t>(warm_up * rate));
	}

private:
	// Enqueue jobs. Each job has a time at which it is sent, by the next producer that is free.
	void enqueue(Broker &broker)
	{
		for (long number; (number = next++) < jobs;)
		{
			std::this_thread::sleep_until(
				begin + std::chrono::duration_cast<Clock::duration>(Seconds(number / rate)));
			Time sent = Clock::now();
			broker.enqueue({number});
			std::lock_guard hold(lock);
			latencies.committed(number, sent);
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
			claimed(numbers[0]);
			broker.ack();
			acknowledged++;
		}
	}
	void claimed(long number)
	{
		std::lock_guard hold(lock);
		last = Clock::now();
		latencies.claimed(number);
	}

	const double rate, warm_up;
	const Seconds length;
	const long jobs;
	std::vector<std::unique_ptr<Broker>> producers, workers;
	Time begin, last;
	std::atomic<long> next = 0, acknowledged = 0;

	std::mutex lock;
	Latencies<long> latencies;
};

} // namespace

void
run_waiting(Connect connect, const Arguments &arguments)
{
	Waiting(connect, arguments).run();
}
