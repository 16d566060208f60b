#include "app.h"
#include "look.h"
#include "report.h"

#include <cstdio>
#include <thread>

namespace top {

namespace {

/* Look at the server once. Return nothing if the connection is lost. */
std::optional<Snapshot>
look_at(Link &link)
{
	Look look({true, true});
	for (std::string sql; !(sql = look.next()).empty();)
	{
		link.ask(sql);
		link.wait(kPatience);
		if (link.state() != Link::State::idle)
			return {};
		look.take(link.take_answer());
	}
	return look.take_snapshot();
}

} // namespace

int
print_once(Link &link, const Options &options, Charset charset)
{
	Memory memory;
	std::optional<Snapshot> snapshot = look_at(link);
	if (snapshot && options.interval)
	{
		memory.add(*snapshot);
		std::this_thread::sleep_for(std::chrono::duration<double>(*options.interval));
		snapshot = look_at(link);
	}
	if (!snapshot)
	{
		if (link.state() == Link::State::busy)
			link.give_up("the server does not answer");
		fprintf(stderr, "pgq-top: %s\n", shown(link.trouble(), charset).c_str());
		return kNoConnection;
	}
	memory.add(*snapshot);
	std::string text = options.mode == Options::Mode::json ? document(*snapshot, memory)
														   : report(*snapshot, memory, charset);
	/*
	 * Writing fails, for example, if the disk is full or the program that reads the output has
	 * ended.
	 */
	if (fputs(text.c_str(), stdout) < 0 || fflush(stdout) != 0)
	{
		perror("pgq-top: cannot write");
		return kBadUse;
	}
	return snapshot->is_incomplete ? kNotAllShown : kAllShown;
}

} // namespace top
