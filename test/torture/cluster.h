/*
 * The servers: a primary, and a standby for which every commit waits.
 *
 * A failover kills all processes of the primary before the standby is promoted, and then builds a
 * new standby. Until the new standby streams, commits wait. So a commit that was confirmed is never
 * lost. The bounds of shared memory change at every start.
 */
#pragma once

#include "random.h"

#include <sys/types.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace torture {

class Cluster
{
public:
	static constexpr int kWorkers = 32;
	/*
	 * max_worker_processes for the launchers of pgq_ext and of logical replication, and none else
	 */
	static constexpr int kLaunchersOnly = 2;

	Cluster(std::string dir, std::string settings, uint64_t seed);
	~Cluster();

	/*
	 * Create a primary with the extension in database postgres, and its standby. from: the version
	 * of the SQL objects; empty: that of the library.
	 */
	void create(const std::string &from);
	/* Update the SQL objects to the library's version. */
	void update();

	/* Return the directory of the primary, and its number, which grows with each failover. */
	std::pair<std::string, int> primary();

	void stop(const char *mode);
	void start();
	/* Promote the standby. kill: end the primary by kill -9 instead of an immediate stop. */
	void failover(bool kill);

	/* Return the primary's server processes, as a map from pid to title. */
	std::map<pid_t, std::string> processes();
	/* Return a process of that kind ("pgq_ext scheduler"); 0 if there is none. */
	pid_t process(const std::string &kind);
	/*
	 * Send a signal to a process. Returns false if it is not a process of the primary any more. May
	 * be called by any thread.
	 */
	bool signal(pid_t pid, int signal);

	/* Return whether the primary, as it was last started, has a worker slot for a scheduler. */
	bool has_scheduler() const { return scheduler; }

	void keep() { kept = true; }

private:
	const std::string dir;
	const std::string settings;
	Random random;
	std::mutex mutex; /* protects primary_number */
	int primary_number = 1;
	int standby_number = 0;
	int last_number = 1;
	bool kept = false;
	bool scheduler = true;
	bool created = false; /* the run has begun */

	std::string data(int number) const;
	std::string sockets(int number) const;
	std::string conninfo(int number) const;
	void write_settings(int number, int workers);
	void start(int number, int workers = kWorkers);
	void stop(int number, const char *mode);
	void kill_all(int number);
	void discard(int number);
	void build_standby();
	void wait_for(int number, const std::string &condition);
	pid_t postmaster(int number);
	std::map<pid_t, std::string> children(pid_t parent);
	void run(const std::vector<std::string> &command);
};

} // namespace torture
