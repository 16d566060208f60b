#include "race.h"
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

namespace {

class Cycle
{
public:
	Cycle(Connect connect, const Arguments &arguments)
		: enqueues(does(arguments, "enqueue")),
		  claims(does(arguments, "claim")),
		  batch(arguments.number("batch", 1)),
		  limit(arguments.number("jobs", 1e18)),
		  warm_up(arguments.number("warm_up", 0)),
		  length(arguments.number("seconds", 1e6))
	{
		for (long i = arguments.number("clients", 1); i > 0; i--)
			brokers.push_back(connect(arguments));
	}

	void run()
	{
		std::vector<std::thread> threads;
		for (auto &broker : brokers)
			threads.emplace_back([&] { work(*broker); });
		measure();
		for (auto &thread : threads)
			thread.join();
		printf("done\t%ld\n", done.load());
	}

private:
	static bool does(const Arguments &arguments, const char *verb)
	{
		return arguments.text("do").find(verb) != std::string::npos;
	}

	// Work until the measurement is over, or no job is left to do.
	void work(Broker &broker)
	{
		std::vector<long> numbers(batch), claimed;
		while (!over && (begun += batch) <= limit)
		{
			for (auto &number : numbers)
				number = next_number++;
			if (enqueues)
				broker.enqueue(numbers);
			if (claims)
			{
				if (!broker.claim(batch, claimed))
					fail("a claim came back empty");
				broker.ack();
			}
			done += claims ? claimed.size() : batch;
		}
		std::lock_guard hold(lock);
		somebody_left = true;
		leaving.notify_one();
	}

	void measure()
	{
		warm();
		Time start = Clock::now();
		long done_at_start = done;
		rest(length);
		printf("rate\t%.0f\n", (done - done_at_start) / Seconds(Clock::now() - start).count());
		over = true;
	}
	// Warm up. Ends early when a tenth of all jobs is done, so that enough jobs are left to
	// measure.
	void warm()
	{
		for (Time end = Clock::now() + std::chrono::duration_cast<Clock::duration>(warm_up);
			 Clock::now() < end && done * 10 < limit;)
			rest(std::chrono::milliseconds(5));
	}

	// Sleep. Ends early when a client has left because there were no more jobs.
	void rest(Seconds seconds)
	{
		std::unique_lock hold(lock);
		leaving.wait_for(hold, seconds, [&] { return somebody_left; });
	}

	const bool enqueues, claims;
	const long batch, limit; // limit: the most jobs that the clients do together
	const Seconds warm_up, length;
	std::vector<std::unique_ptr<Broker>> brokers;
	std::atomic<long> begun = 0, done = 0, next_number = 0;
	std::atomic<bool> over = false;

	std::mutex lock;
	std::condition_variable leaving;
	bool somebody_left = false;
};

} // namespace

void
run_cycle(Connect connect, const Arguments &arguments)
{
	Cycle(connect, arguments).run();
}
