#include "cycle.h"
#include "connection.h"
#include <algorithm>
#include <deque>

namespace {

struct Step
{
	std::string name; // name of the piece, without _many
	Verb verb;
};

struct Client
{
	Connection connection;
	size_t step = 0;
	std::vector<std::string> claimed = {}; // parameters of the acknowledgement of the claimed jobs
	long jobs = 0;						   // number of jobs in this round of the cycle
	bool leaving = false;				   // the client acknowledges its last jobs, and then ends
};

class Cycle
{
public:
	Cycle(const Side &, const Arguments &);
	void run();

private:
	void begin(Client &);
	void leave(Client &);
	void end_of_step(Client &);
	void next_step(Client &);
	void claimed(Client &);
	void count_off(Client &);
	void measure(Time now);
	Time next_event() const;

	const long batch, limit; // limit: the most jobs to claim
	const Seconds warm_up, length;
	const Clock::duration work;
	const bool series;

	std::vector<Step> steps;
	Verb last; // acknowledges the jobs of the last ack_claim
	// number of the next job, for a side whose jobs the client chooses; otherwise 0
	long number = 0;
	std::vector<Client> clients;
	// (end of work, client); all work takes the same time
	std::deque<std::pair<Time, Client *>> working;
	std::string enqueued; // parameter of the piece enqueue
	size_t busy = 0;
	long begun = 0, done = 0;

	enum class Phase
	{
		warm_up,
		measured,
		over
	} phase = Phase::warm_up;
	Time start, second;
	long done_at_start = 0, done_at_second = 0, seconds = 0;
};

// Return `batch` jobs as one parameter: an array of payloads, or the JSON that pgq_enqueue_many
// takes, with further keys for each job.
std::string
bulk(long batch, bool as_array, const std::string &keys)
{
	std::string job, all(1, as_array ? '{' : '[');
	if (as_array)
	{
		job = '"';
		for (char c : payload())
			job.append(c == '"' ? 1 : 0, '\\').push_back(c);
		job += '"';
	}
	else
		job.append("{").append(keys).append("\"payload\":").append(payload()).append("}");
	for (long i = 0; i < batch; i++)
		all.append(i > 0 ? 1 : 0, ',').append(job);
	all += as_array ? '}' : ']';
	return all;
}

Cycle::Cycle(const Side &side, const Arguments &arguments)
	: batch(arguments.number("batch", 1)),
	  limit(arguments.number("jobs", 1e18)),
	  warm_up(arguments.number("warm_up", 0)),
	  length(arguments.number("seconds", 1e6)),
	  work(std::chrono::microseconds(long(arguments.number("work_ms", 0) * 1000))),
	  series(arguments.number("series", 0))
{
	std::string names = arguments.text("do") + ",";
	std::vector<const Verb *> verbs;
	for (size_t at = 0, comma; (comma = names.find(',', at)) != std::string::npos; at = comma + 1)
	{
		std::string name = names.substr(at, comma - at);
		Step step{name, describe(side, batch > 1 ? name + "_many" : name)};
		if (name == "enqueue")
			enqueued = batch > 1 ? bulk(batch, step.verb.takes_array,
										side.has("keys") ? side.sql("keys") : "")
								 : payload();
		if (!step.verb.statements.empty())
			steps.push_back(step);
	}
	for (auto &step : steps)
		verbs.push_back(&step.verb);
	if (side.has("last"))
		verbs.push_back(&(last = describe(side, "last")));
	if (const char *piece = batch > 1 ? "number_many" : "number"; side.has(piece))
		number = std::stol(Connection().execute(side.sql(piece)));
	for (long i = arguments.number("clients", 1); i > 0; i--)
		clients.push_back({.connection = Connection(verbs)});
}

void
Cycle::begin(Client &client)
{
	if (phase == Phase::over || begun + batch > limit)
		return leave(client);
	begun += batch;
	client.jobs = batch;
	client.step = 0;
	next_step(client);
}

void
Cycle::leave(Client &client)
{
	if (!last.statements.empty() && !client.claimed.empty() && !client.leaving)
	{
		client.leaving = true;
		client.connection.start(last, client.claimed);
		return;
	}
	busy--;
	measure(Clock::now());
}

void
Cycle::next_step(Client &client)
{
	auto &step = steps[client.step];
	if (step.name == "enqueue")
		client.connection.start(step.verb, {enqueued});
	else if (step.name == "claim")
	{
		client.claimed.clear();
		if (number > 0)
			count_off(client);
		client.connection.start(step.verb, step.verb.parameters() > 0 ? client.claimed
																	  : std::vector<std::string>{});
	}
	else if (client.claimed.empty()) // the first ack_claim has nothing to acknowledge
		client.connection.start(step.verb, {"{}", "{}"});
	else
		client.connection.start(step.verb, client.claimed);
}

static std::string
as_parameter(const Verb &verb, const std::string &list)
{
	return verb.takes_array ? "{" + list + "}" : list;
}

// Give the client the next numbers as its jobs.
void
Cycle::count_off(Client &client)
{
	const Verb &verb = steps[std::min(client.step + 1, steps.size() - 1)].verb;
	std::string list = std::to_string(number++);
	for (long i = 1; i < batch; i++)
		list += "," + std::to_string(number++);
	client.claimed = {as_parameter(verb, list)};
}

// The first columns of the claimed rows are the parameters of the acknowledgement.
void
Cycle::claimed(Client &client)
{
	auto &connection = client.connection;
	if (connection.rows() == 0)
		fail("a claim came back empty");
	if (number > 0)
		return;
	client.jobs = connection.rows();
	client.claimed.clear();
	bool again = steps[client.step].name == "ack_claim";
	if (client.step + 1 == steps.size() && !again)
		return;
	auto &ack = steps[again ? client.step : client.step + 1].verb;
	for (int column = 0; column < ack.parameters(); column++)
	{
		std::string text = connection.value(0, column);
		for (int row = 1; row < client.jobs; row++)
			text += "," + connection.value(row, column);
		client.claimed.push_back(as_parameter(ack, text));
	}
}

void
Cycle::end_of_step(Client &client)
{
	if (client.leaving)
		return leave(client);
	bool claim = steps[client.step].name != "ack" && steps[client.step].name != "enqueue";
	if (claim)
		claimed(client);
	if (++client.step == steps.size())
	{
		done += client.jobs;
		begin(client);
	}
	else if (claim && work.count() > 0)
		working.push_back({Clock::now() + work, &client});
	else
		next_step(client);
}

// End a phase when it is over. The measured phase also ends when a client has nothing more to do.
void
Cycle::measure(Time now)
{
	if (phase == Phase::warm_up && (now - start >= warm_up || done * 10 >= limit))
	{
		phase = Phase::measured;
		start = second = now;
		done_at_start = done_at_second = done;
	}
	if (phase != Phase::measured)
		return;
	if (series && now - start >= std::chrono::seconds(seconds + 1))
	{
		printf("rate@%ld\t%.0f\n", ++seconds,
			   (done - done_at_second) / Seconds(now - second).count());
		second = now;
		done_at_second = done;
	}
	if (now - start >= length || busy < clients.size())
	{
		phase = Phase::over;
		printf("rate\t%.0f\n", (done - done_at_start) / Seconds(now - start).count());
	}
}

Time
Cycle::next_event() const
{
	auto end = start + std::chrono::duration_cast<Clock::duration>(
						   phase == Phase::warm_up ? warm_up : length);
	if (phase == Phase::over)
		end = Clock::now() + std::chrono::seconds(1);
	if (series)
		end = std::min(end, start + std::chrono::seconds(seconds + 1));
	return working.empty() ? end : std::min(end, working.front().first);
}

void
Cycle::run()
{
	Poll poll;
	for (size_t i = 0; i < clients.size(); i++)
		poll.add(clients[i].connection, i);
	start = second = Clock::now();
	busy = clients.size();
	for (auto &client : clients)
		begin(client);
	while (busy > 0)
	{
		for (size_t i : poll.wait(next_event()))
			if (clients[i].connection.finished())
				end_of_step(clients[i]);
		for (Time now = Clock::now(); !working.empty() && working.front().first <= now;)
		{
			Client &client = *working.front().second;
			working.pop_front();
			next_step(client);
		}
		measure(Clock::now());
	}
	printf("done\t%ld\n", done);
}

} // namespace

void
run_cycle(const Side &side, const Arguments &arguments)
{
	Cycle cycle(side, arguments);
	if (arguments.number("hold", 0) == 0)
		return cycle.run();
	Connection snapshot;
	snapshot.hold();
	cycle.run();
}
