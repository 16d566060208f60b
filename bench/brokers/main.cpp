// Puts load on a queue outside of PostgreSQL, as bench/load does on one in PostgreSQL.
//
//   brokers SIDE do=enqueue|claim|enqueue,claim queue=NAME [clients=N] [batch=N] [jobs=N] [seconds=S] [warm_up=S]
//                      claim: claim and acknowledge; jobs: the most jobs to do
//   brokers SIDE do=wait queue=NAME rate=N [clients=N] [producers=N] [seconds=S] [warm_up=S]
//   brokers SIDE do=setup|fill|vacuum|count queue=NAME [jobs=N]
//
// The broker is at socket=PATH, or at port=N of this machine.
#include "race.h"
#include <cstdio>

static const std::map<std::string, Connect> sides = {
	{"redis_list", connect_redis_list},
	{"redis_stream", connect_redis_stream},
	{"rabbitmq", connect_rabbitmq},
	{"rabbitmq_prefetch", connect_rabbitmq_prefetch},
	{"rabbitmq_quorum", connect_rabbitmq_quorum},
	{"beanstalkd", connect_beanstalkd}};

static void
fill(Broker &broker, long jobs)
{
	for (long number = 0; number < jobs;)
	{
		std::vector<long> numbers;
		while (numbers.size() < 1000 && number < jobs)
			numbers.push_back(number++);
		broker.enqueue(numbers);
	}
}

int
main(int argc, char **argv)
{
	auto side = argc < 2 ? sides.end() : sides.find(argv[1]);
	if (side == sides.end())
		fail("which side?");
	Arguments arguments = read_arguments(argc - 2, argv + 2);
	std::string what = arguments.text("do");
	if (what == "wait")
		run_waiting(side->second, arguments);
	else if (what.find("claim") != std::string::npos || what.find("enqueue") == 0)
		run_cycle(side->second, arguments);
	else if (what == "fill")
		fill(*side->second(arguments), arguments.number("jobs", 0));
	else if (what == "count")
		printf("%ld\n", side->second(arguments)->count());
	else if (what == "setup")
		side->second(arguments);
	else if (what != "vacuum") // a broker needs no VACUUM
		fail("what is " + what + "?");
}
