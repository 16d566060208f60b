#include "waiting.h"
#include "connection.h"
#include "latencies.h"
#include <algorithm>
#include <memory>
#include <utility>

namespace {

struct Member
{
	Connection connection;
	enum
	{
		idle,
		enqueueing,
		claiming,
		acknowledging
	} state = idle;
	Time sent = {};
	long jobs = 0; // number of claimed jobs
};

class Waiting
{
public:
	Waiting(const Side &, const Arguments &);
	void run();

private:
	void enqueue_what_is_due();
	void claim(Member &);
	void wake_one();
	Time poll_if_due(Time now);
	void enqueued(Member &);
	void claimed(Member &);

	Verb enqueue, take, ack;
	std::vector<std::string> parameters;
	std::vector<Member> producers, workers;
	std::unique_ptr<Connection> listener;
	// poll_interval: for a side that can neither wait nor listen
	const Clock::duration interval, poll_interval;
	const long warm_up; // number of jobs that do not count
	const Seconds length;
	Time next, end, next_poll = {};
	long begun = 0, acknowledged = 0;
	bool polls;
	bool missed_wake = false; // a notification came while no worker was idle
	Latencies<std::string> latencies;
};

Waiting::Waiting(const Side &side, const Arguments &arguments)
	: enqueue(describe(side, "enqueue")),
	  take(describe(side, side.has("wait") ? "wait" : "claim")),
	  ack(describe(side, "ack")),
	  interval(std::chrono::nanoseconds(long(1e9 / arguments.number("rate", 100)))),
	  poll_interval(std::chrono::microseconds(long(1000 * arguments.number("poll_ms", 100)))),
	  warm_up(arguments.number("rate", 100) * arguments.number("warm_up", 0)),
	  length(arguments.number("warm_up", 0) + arguments.number("seconds", 1))
{
	for (long i = arguments.number("producers", 8); i > 0; i--)
		producers.push_back({.connection = Connection({&enqueue})});
	for (long i = arguments.number("clients", 16); i > 0; i--)
		workers.push_back({.connection = Connection({&take, &ack})});
	polls = !side.has("wait") && !side.has("listen");
	if (side.has("listen") && !side.has("wait"))
	{
		listener = std::make_unique<Connection>();
		listener->execute(side.sql("listen"));
	}
}

void
Waiting::enqueue_what_is_due()
{
	for (auto &producer : producers)
	{
		if (Clock::now() < next || next >= end || Clock::now() >= end)
			return;
		if (producer.state != Member::idle)
			continue;
		producer.state = Member::enqueueing;
		producer.sent = Clock::now();
		producer.connection.start(enqueue, {payload()});
		next += interval;
		begun++;
	}
}

void
Waiting::claim(Member &worker)
{
	worker.state = Member::claiming;
	worker.connection.start(take, {});
}

void
Waiting::wake_one()
{
	for (auto &worker : workers)
		if (worker.state == Member::idle)
			return claim(worker);
	missed_wake = true;
}

// Poll if it is time to. Returns when the next poll is due.
Time
Waiting::poll_if_due(Time now)
{
	if (!polls)
		return Time::max();
	if (now >= next_poll)
	{
		for (auto &worker : workers)
			if (worker.state == Member::idle)
				claim(worker);
		next_poll = now + poll_interval;
	}
	return next_poll;
}

void
Waiting::enqueued(Member &producer)
{
	producer.state = Member::idle;
	latencies.committed(producer.connection.value(0, 0), producer.sent);
}

void
Waiting::claimed(Member &worker)
{
	auto &connection = worker.connection;
	if (worker.state == Member::acknowledging)
	{
		acknowledged += worker.jobs;
		return claim(worker);
	}
	if (connection.rows() > 0)
	{
		parameters.clear();
		for (int column = 0; column < ack.parameters(); column++)
			parameters.push_back(connection.value(0, column));
		worker.jobs = connection.rows();
		for (int row = 0; row < worker.jobs; row++)
			latencies.claimed(connection.value(row, 0));
		worker.state = Member::acknowledging;
		return connection.start(ack, parameters);
	}
	worker.state = Member::idle;
	if (!(listener || polls) || std::exchange(missed_wake, false))
		claim(worker);
}

void
Waiting::run()
{
	Poll poll;
	const size_t first_worker = producers.size(), the_listener = first_worker + workers.size();
	for (size_t i = 0; i < producers.size(); i++)
		poll.add(producers[i].connection, i);
	for (size_t i = 0; i < workers.size(); i++)
		poll.add(workers[i].connection, first_worker + i);
	if (listener)
		poll.add(*listener, the_listener);
	for (auto &worker : workers)
		claim(worker);

	Time begin = Clock::now();
	next = begin;
	end = begin + std::chrono::duration_cast<Clock::duration>(length);
	const Time given_up = end + std::chrono::seconds(30);
	while (Clock::now() < end || acknowledged < begun)
	{
		enqueue_what_is_due();
		bool producer_idle = std::any_of(producers.begin(), producers.end(),
										 [](auto &p) { return p.state == Member::idle; });
		Time now = Clock::now();
		Time until = std::min(now + std::chrono::milliseconds(100), poll_if_due(now));
		for (size_t i : poll.wait(now < end && producer_idle ? std::min(next, until) : until))
			if (i == the_listener)
				for (int n = listener->notifications(); n > 0; n--)
					wake_one();
			else if (i >= first_worker)
			{
				if (workers[i - first_worker].connection.finished())
					claimed(workers[i - first_worker]);
			}
			else if (producers[i].connection.finished())
				enqueued(producers[i]);
		if (Clock::now() > given_up)
			fail("jobs are not claimed");
	}
	printf("rate\t%.0f\n", begun / Seconds(Clock::now() - begin).count());
	printf("done\t%ld\n", begun);
	latencies.print(warm_up);
	for (auto &worker : workers)
		if (worker.state == Member::claiming)
			worker.connection.cancel();
}

} // namespace

void
run_waiting(const Side &side, const Arguments &arguments)
{
	Waiting(side, arguments).run();
}
