/* Kills, in an order that the seed determines. */
#pragma once

#include "actor.h"

#include <memory>
#include <vector>

namespace torture {

class Killer
{
public:
	Killer(World &world, const std::vector<std::unique_ptr<Actor>> &actors);

	/*
	 * Make one kill, of the next kind in the deck. If the server has to be started, wait for that.
	 */
	void strike();
	/* Restart a server that has no process for a scheduler, until it has one. */
	void give_scheduler();

private:
	struct Kind
	{
		const char *name;
		int weight;
		bool (Killer::*strike)();
	};
	static const Kind kinds[];

	World &world;
	const std::vector<std::unique_ptr<Actor>> &actors;
	Random random;
	Connection connection;
	std::vector<const Kind *> deck; /* kinds still to come; shuffled again only when it is empty */

	bool cut_client();
	bool signal_backend(int signal);
	pid_t handler();
	pid_t sleeping_handler();
	bool signal_handler(int signal);
	bool signal_worker(const char *type, int signal);
	bool pause(pid_t pid, int least, int most);
	bool restart(const char *mode);
	bool failover(bool kill);

	bool terminate_backend();
	bool cancel_backends();
	bool kill_backend();
	bool terminate_scheduler();
	bool kill_scheduler();
	bool terminate_launcher();
	bool kill_launcher();
	bool cancel_handlers();
	bool terminate_handler();
	bool kill_handler();
	bool pause_handler();
	bool pause_backend();
	bool pause_scheduler();
	bool restart_immediately();
	bool restart_fast();
	bool fail_over_stopped();
	bool fail_over_killed();
};

} // namespace torture
