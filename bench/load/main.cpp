// Puts load on a queue in PostgreSQL. The server is found by the variables of libpq.
//
//   load SIDE.sql do=claim,ack|ack_claim queue=NAME [clients=N] [batch=N] [jobs=N] [seconds=S] [warm_up=S] [work_ms=MS]
//        [hold=1] [series=1]
//                      jobs: at most so many; hold: while a snapshot is held; series: the rate of each second as well
//   load SIDE.sql do=wait queue=NAME rate=N [clients=N] [producers=N] [seconds=S] [warm_up=S] [poll_ms=MS]
//                      poll_ms: if it can neither wait nor listen
//   load SIDE.sql do=takeover queue=NAME [rounds=N] [clients=N]
//                      clients: so many others are connected
//   load SIDE.sql do=NAME queue=NAME [jobs=N]
//                      runs a piece of the file once, and prints its first value
#include "connection.h"
#include "cycle.h"
#include "takeover.h"
#include "waiting.h"
#include <cstdio>

static void
run_once(const Side &side, const std::string &name)
{
	puts(Connection().execute(side.sql(name)).c_str());
}

int
main(int argc, char **argv)
{
	if (argc < 2)
		fail("which side?");
	Arguments arguments = read_arguments(argc - 2, argv + 2);
	Side side(argv[1], arguments);
	std::string what = arguments.text("do");
	if (what == "wait")
		run_waiting(side, arguments);
	else if (what == "takeover")
		run_takeover(side, arguments);
	else if (what.find("claim") != std::string::npos || what.find("enqueue") == 0)
		run_cycle(side, arguments);
	else
		run_once(side, what);
}
