#include "takeover.h"
#include "connection.h"
#include <algorithm>
#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

// A process that has the leader's lock until it is killed.
class Leader
{
public:
	explicit Leader(const std::string &lead)
	{
		int ends[2];
		if (pipe(ends) != 0 || (process = fork()) < 0)
			fail("no process for a leader");
		if (process == 0)
		{
			Connection connection;
			if (connection.execute(lead).empty() || write(ends[1], "", 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
		close(ends[1]);
		char leads;
		if (read(ends[0], &leads, 1) != 1)
			fail("somebody else leads");
		close(ends[0]);
	}
	void kill()
	{
		::kill(process, SIGKILL);
		waitpid(process, nullptr, 0);
	}

private:
	pid_t process;
};

class Follower
{
public:
	explicit Follower(const Side &side)
		: follow(describe(side, "follow")),
		  give_back(describe(side, "give_back")),
		  connection({&follow, &give_back})
	{
		poll.add(connection, 0);
	}
	void wait() { connection.start(follow, {}); }
	Time leads()
	{
		finish();
		return Clock::now();
	}
	void end()
	{
		connection.start(give_back, {connection.value(0, 0)});
		finish();
	}

private:
	void finish()
	{
		while (!connection.finished())
			poll.wait(Clock::now() + std::chrono::seconds(1));
	}

	Verb follow, give_back;
	Connection connection;
	Poll poll;
};

} // namespace

void
run_takeover(const Side &side, const Arguments &arguments)
{
	std::vector<Connection> attached(arguments.number("clients", 0));
	for (auto &client : attached)
		client.execute(side.sql("attach"));
	Connection control;
	Follower follower(side);
	std::vector<double> took; // milliseconds of each takeover
	for (long n = arguments.number("rounds", 200); n > 0; n--)
	{
		Leader leader(side.sql("lead"));
		follower.wait();
		while (control.execute(side.sql("in_line")) != "t")
			std::this_thread::sleep_for(std::chrono::milliseconds(1));
		Time killed = Clock::now();
		leader.kill();
		took.push_back(
			std::chrono::duration<double, std::milli>(follower.leads() - killed).count());
		follower.end();
	}
	std::sort(took.begin(), took.end());
	for (auto [label, part] : {std::pair("p50", 0.5), {"p99", 0.99}, {"max", 1.0}})
		printf("takeover_%s\t%.3f\n", label,
			   took[std::min<size_t>(took.size() * part, took.size() - 1)]);
}
