#include "fire.h"
#include "connection.h"
#include <algorithm>

namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

struct Worker
{
	Connection connection;
	bool acknowledging = false;
	bool idle = false; // its last claim has returned no job
};

class Fire
{
public:
	Fire(const Side &, const Arguments &);
	void round();
	void print();

private:
	void next_step(Worker &, Time now);
	void acknowledge(Worker &);

	const Side &side;
	const bool has_callback;
	const Verb callback;
	Verb claim, ack;
	Connection producer, waiter;
	std::vector<Worker> workers;
	Poll poll;
	size_t busy = 0;
	long jobs = 0; // number of acknowledged jobs in this round
	Time last_ack;
	// a value for each round
	std::vector<double> fired, closed, rates;
};

Fire::Fire(const Side &side, const Arguments &arguments)
	: side(side),
	  has_callback(side.has("callback")),
	  callback(has_callback ? describe(side, "callback") : Verb()),
	  waiter({&callback})
{
	const std::string suffix = arguments.number("batch", 1) > 1 ? "_many" : "";
	claim = describe(side, "claim" + suffix);
	ack = describe(side, "ack" + suffix);
	for (long i = arguments.number("clients", 1); i > 0; i--)
		workers.push_back({.connection = Connection({&claim, &ack})});
	for (size_t i = 0; i < workers.size(); i++)
		poll.add(workers[i].connection, i);
	poll.add(waiter, workers.size());
}

// Acknowledge the claimed jobs. The first columns of their rows are the parameters of the ack.
void
Fire::acknowledge(Worker &worker)
{
	std::vector<std::string> parameters;
	for (int column = 0; column < ack.parameters(); column++)
	{
		std::string list = worker.connection.value(0, column);
		for (int row = 1; row < worker.connection.rows(); row++)
			list += "," + worker.connection.value(row, column);
		parameters.push_back(ack.takes_array ? "{" + list + "}" : list);
	}
	jobs += worker.connection.rows();
	worker.acknowledging = true;
	worker.connection.start(ack, parameters);
}

void
Fire::next_step(Worker &worker, Time now)
{
	if (worker.acknowledging)
	{
		last_ack = now;
		worker.acknowledging = false;
		worker.connection.start(claim, {});
	}
	else if (worker.connection.rows() > 0)
		acknowledge(worker);
	else
	{
		worker.idle = true;
		busy--;
	}
}

// Make a set of jobs, work off the set, and wait for the job that comes after it.
void
Fire::round()
{
	producer.execute(side.sql("open"));
	Time start = Clock::now();
	if (side.has("close"))
	{
		producer.execute(side.sql("close"));
		closed.push_back(Milliseconds(Clock::now() - start).count());
		start = Clock::now();
	}
	bool waits = has_callback;
	if (waits)
		waiter.start(callback, {});
	jobs = 0;
	busy = workers.size();
	for (auto &worker : workers)
	{
		worker.idle = false;
		worker.connection.start(claim, {});
	}
	Time came;
	while (busy > 0 || waits)
		for (size_t i : poll.wait(Clock::now() + std::chrono::seconds(1)))
			if (i < workers.size())
			{
				if (!workers[i].idle && workers[i].connection.finished())
					next_step(workers[i], Clock::now());
			}
			else if (waits && waiter.finished())
			{
				came = Clock::now();
				if (waiter.rows() > 0)
					waits = false;
				else
					waiter.start(callback, {}); // the wait is over
			}
	if (jobs == 0)
		fail("no jobs");
	rates.push_back(jobs / Seconds(last_ack - start).count());
	if (!has_callback)
		return;
	fired.push_back(std::max(0.0, Milliseconds(came - last_ack).count()));
	producer.execute(side.sql("finish"));
}

void
print_metric(const char *name, std::vector<double> &values)
{
	if (values.empty())
		return;
	std::sort(values.begin(), values.end());
	printf("%s_p50\t%.3f\n%s_max\t%.3f\n", name, values[values.size() / 2], name, values.back());
}

void
Fire::print()
{
	std::sort(rates.begin(), rates.end());
	printf("rate\t%.0f\n", rates[rates.size() / 2]);
	print_metric("fired", fired);
	print_metric("closed", closed);
}

} // namespace

void
run_fire(const Side &side, const Arguments &arguments)
{
	Connection snapshot;
	if (arguments.number("hold", 0) > 0)
		snapshot.hold();
	Fire fire(side, arguments);
	for (long n = arguments.number("rounds", 1); n > 0; n--)
		fire.round();
	fire.print();
}
