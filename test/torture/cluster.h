/*
 * The servers: a primary, and a standby that every commit waits for.
 *
 * Failover kills all of the primary's processes before the standby is promoted, then
 * builds a new standby behind it. Until that one streams, commits wait: so what was
 * confirmed is never lost. Bounds of shared memory change at every start.
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
	static constexpr int kLaunchersOnly = 2; /* ours and that of logical replication */

	Cluster(std::string dir, std::string settings, uint64_t seed);
	~Cluster();

	/* A primary with the extension in database postgres, and its standby. From empty: of the library's version. */
	void create(const std::string &from);
	/* To the library's version. */
	void update();

	/* Where the primary is, and its number, which grows with each failover. */
	std::pair<std::string, int> primary();

	void stop(const char *mode);
	void start();
	/* kill: kill -9 instead of an immediate stop */
	void failover(bool kill);

	/* The primary's server processes: pid -> title. */
	std::map<pid_t, std::string> processes();
	/* Of one kind ("pgq_ext scheduler"); 0 if there is none. */
	pid_t process(const std::string &kind);
	/* Any thread. False if it is none of the primary's processes any more. */
	bool signal(pid_t pid, int signal);

	/* Has the primary room for a scheduler in this life? */
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
