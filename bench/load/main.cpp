// Puts load on a queue in PostgreSQL. The environment variables of libpq say which server to use.
//
//   load SIDE.sql do=claim,ack|ack_claim queue=NAME [clients=N] [batch=N] [jobs=N] [seconds=S] [warm_up=S] [work_ms=MS]
//        [hold=1] [series=1]
//                      jobs: the most jobs to do; hold: hold a snapshot; series: also print the rate of each second
//   load SIDE.sql do=wait queue=NAME rate=N [clients=N] [producers=N] [seconds=S] [warm_up=S] [poll_ms=MS]
//                      poll_ms: interval of polling, for a side that can neither wait nor listen
//   load SIDE.sql do=takeover queue=NAME [rounds=N] [clients=N]
//                      clients: number of other connections
//   load SIDE.sql do=fire queue=NAME [jobs=N] [clients=N] [batch=N] [rounds=N] [hold=1]
//                      jobs: number of members of each batch; rounds: number of batches, one after the other
//   load SIDE.sql do=NAME queue=NAME [jobs=N]
//                      run a piece of the file once, and print the first value of its result
//
// A side may have a piece "id": its result is put in place of :id in the other pieces, except in "setup".
#include "connection.h"
#include "cycle.h"
#include "fire.h"
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
	if (what != "setup" && side.has("id"))
		side.put(":id", Connection().execute(side.sql("id")));
	if (what == "wait")
		run_waiting(side, arguments);
	else if (what == "takeover")
		run_takeover(side, arguments);
	else if (what == "fire")
		run_fire(side, arguments);
	else if (what.find("claim") != std::string::npos || what.find("enqueue") == 0)
		run_cycle(side, arguments);
	else
		run_once(side, what);
}
