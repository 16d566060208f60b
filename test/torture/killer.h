/* Kills, in an order that comes from the seed. */
#pragma once

#include "actor.h"

#include <memory>
#include <vector>

namespace torture {

class Killer
{
public:
	Killer(World &world, const std::vector<std::unique_ptr<Actor>> &actors);

	/* One kill, of the next kind; waits for the end of it if the server has to be started. */
	void strike();

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
	std::vector<const Kind *> deck; /* dealt to the end before it is shuffled again */

	bool cut_client();
	bool signal_backend(int signal);
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
	bool pause_backend();
	bool pause_scheduler();
	bool restart_immediately();
	bool restart_fast();
	bool fail_over_stopped();
	bool fail_over_killed();
};

} // namespace torture
