#include "cluster.h"

#include "connection.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace torture {

namespace fs = std::filesystem;

static constexpr int kFailed = 127;

Cluster::Cluster(std::string dir, std::string settings, uint64_t seed)
	: dir(std::move(dir)), settings(std::move(settings)), random(seed, "cluster")
{}

Cluster::~Cluster()
{
	for (int number : {primary_number, standby_number})
		if (number != 0 && postmaster(number) != 0)
			kill_all(number);
	for (int number : {primary_number, standby_number})
		if (number != 0 && !kept)
			discard(number);
}

std::string
Cluster::data(int number) const
{
	return dir + "/s" + std::to_string(number);
}

std::string
Cluster::sockets(int number) const
{
	return data(number) + ".socket";
}

std::string
Cluster::conninfo(int number) const
{
	return "host=" + sockets(number) +
		   " dbname=postgres user=postgres application_name=torture options='-c lock_timeout=2s'";
}

std::pair<std::string, int>
Cluster::primary()
{
	std::lock_guard lock(mutex);
	return {conninfo(primary_number), primary_number};
}

/* ---- programs ---- */

void
Cluster::run(const std::vector<std::string> &command)
{
	std::vector<char *> arguments;
	for (const std::string &argument : command)
		arguments.push_back(const_cast<char *>(argument.c_str()));
	arguments.push_back(nullptr);
	std::string output = dir + "/programs.out";
	pid_t pid = fork();
	if (pid == 0)
	{
		int in = ::open("/dev/null", O_RDONLY);
		int out = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
		dup2(in, STDIN_FILENO);
		dup2(out, STDOUT_FILENO);
		dup2(out, STDERR_FILENO);
		execvp(arguments[0], arguments.data());
		_exit(kFailed);
	}
	int status = 0;
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
		throw std::runtime_error(command[0] + " failed, see " + output);
}

/* ---- processes ---- */

pid_t
Cluster::postmaster(int number)
{
	pid_t pid = 0;
	std::ifstream(data(number) + "/postmaster.pid") >> pid;
	return pid;
}

/*
 * Return the parent of a process; 0 if there is no such process, or if it is dead and only not
 * reaped.
 */
static pid_t
parent_of(pid_t pid)
{
	/* The file begins with: pid (name) state parent ... */
	std::string stat;
	std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
	std::getline(file, stat);
	size_t name_end = stat.rfind(')');
	if (name_end == std::string::npos)
		return 0;
	char state = 'Z';
	pid_t parent = 0;
	std::istringstream(stat.substr(name_end + 1)) >> state >> parent;
	return state == 'Z' ? 0 : parent;
}

std::map<pid_t, std::string>
Cluster::children(pid_t parent)
{
	std::map<pid_t, std::string> found;
	std::error_code ignored;
	for (const auto &entry : fs::directory_iterator("/proc", ignored))
	{
		pid_t pid = atoi(entry.path().filename().c_str());
		if (pid <= 0 || parent_of(pid) != parent)
			continue;
		std::string title;
		std::ifstream file(entry.path() / "cmdline");
		std::getline(file, title, '\0');
		found.emplace(pid, title);
	}
	return found;
}

std::map<pid_t, std::string>
Cluster::processes()
{
	pid_t parent = postmaster(primary().second);
	return parent == 0 ? std::map<pid_t, std::string>{} : children(parent);
}

pid_t
Cluster::process(const std::string &kind)
{
	for (const auto &[pid, title] : processes())
		if (title.find(kind) != std::string::npos)
			return pid;
	return 0;
}

bool
Cluster::signal(pid_t pid, int signal)
{
	return processes().contains(pid) && kill(pid, signal) == 0;
}

/*
 * Kill all processes of a server. Stop them first, so that the postmaster starts no more in
 * between.
 */
void
Cluster::kill_all(int number)
{
	pid_t parent = postmaster(number);
	if (parent == 0)
		return;
	int shared_memory = 0;
	{
		/*
		 * The seventh line of postmaster.pid has the key and the id of a small System V memory
		 * segment.
		 */
		std::ifstream file(data(number) + "/postmaster.pid");
		std::string line;
		for (int i = 0; i < 7; i++)
			std::getline(file, line);
		int64_t key;
		std::istringstream(line) >> key >> shared_memory;
	}
	kill(parent, SIGSTOP);
	std::map<pid_t, std::string> all = children(parent);
	for (const auto &[pid, title] : all)
		kill(pid, SIGKILL);
	kill(parent, SIGKILL);
	all.emplace(parent, "");
	for (const auto &[pid, title] : all)
		for (Time end = now() + kPatience; parent_of(pid) != 0;)
		{
			if (now() > end)
				throw std::runtime_error("process " + std::to_string(pid) + " does not die");
			nap(10 * kMillisecond);
		}
	shmctl(shared_memory, IPC_RMID, nullptr);
	fs::remove(data(number) + "/postmaster.pid");
}

/* ---- one server ---- */

/*
 * The stop points at which a Holder keeps the scheduler: usually in the middle of a move, or before
 * or after a TRUNCATE, or while it looks at a batch, or at children, or deletes outcomes.
 */
static const std::vector<std::string> kStopPoints = {"",
													 "rotation-verified",
													 "rotation-verified",
													 "rotation-cut",
													 "rotation-truncated",
													 "batch-looked-once",
													 "batch-fired",
													 "children-judged",
													 "outcomes-deleted"};

/*
 * Write the settings of a server. The bounds of shared memory are usually tiny, and differ at every
 * start; 1 is the smallest. In times of shortage, with which each run begins, all are as small as
 * can be. Segments are closed after some hundred or thousand jobs.
 */
void
Cluster::write_settings(int number, int workers)
{
	bool shortage = !created || random.chance(25);
	int most = shortage ? 3 : random.chance(75) ? 16 : 2000;
	int segment_size = 64 << std::min(random.between(0, 4), random.between(0, 4));
	std::ofstream(data(number) + "/torture.conf")
		<< "pgq_ext.window_size = " << random.between(1, most) << "\n"
		<< "pgq_ext.timer_size = " << random.between(1, most) << "\n"
		<< "pgq_ext.max_leases = " << (shortage || random.chance(30) ? 16 : random.between(17, 200))
		<< "\n"
		<< "pgq_ext.max_queues = 32\n"
		<< "pgq_ext.max_watched_batches = "
		<< (shortage || random.chance(40) ? 1 : random.between(2, 20)) << "\n"
		<< "pgq_ext.max_locks = " << random.between(100, 300) << "\n"
		<< "pgq_ext.max_rates = " << random.between(2, 4) << "\n"
		<< "pgq_ext.max_handler_workers = " << (shortage ? 1 : random.between(1, 4)) << "\n"
		<< "pgq_ext.keep_runs = 1000000\n"
		<< "pgq_ext.segment_size = " << segment_size << "kB\n"
		<< "pgq_ext.rotation_waits_for_snapshots = " << (random.chance(25) ? "on" : "off") << "\n"
		<< "pgq_ext.stop_point = '"
		<< (random.chance(50) ? "rotation-moved" : random.pick(kStopPoints)) << "'\n"
		<< "max_worker_processes = " << workers << "\n"
		<< "unix_socket_directories = '" << sockets(number) << "'\n";
}

void
Cluster::start(int number, int workers)
{
	fs::create_directories(sockets(number));
	write_settings(number, workers);
	run({"pg_ctl", "-D", data(number), "-l", data(number) + ".log", "-t", "180", "-w", "start"});
}

void
Cluster::stop(int number, const char *mode)
{
	run({"pg_ctl", "-D", data(number), "-t", "180", "-m", mode, "-w", "stop"});
}

void
Cluster::discard(int number)
{
	std::error_code ignored;
	fs::remove_all(data(number), ignored);
	fs::remove_all(sockets(number), ignored);
}

void
Cluster::wait_for(int number, const std::string &condition)
{
	Connection connection;
	Time end = now() + kPatience;
	for (; now() < end; nap(50 * kMillisecond))
		try
		{
			if ((connection.is_open() || connection.try_open(conninfo(number), number)) &&
				connection.run("SELECT 1 WHERE " + condition).size() > 0)
				return;
		}
		catch (const Broken &)
		{}
	throw std::runtime_error("waited in vain for: " + condition);
}

/* ---- the cluster ---- */

void
Cluster::create(const std::string &from)
{
	int number = primary_number;
	fs::create_directories(dir);
	run({"initdb", "-D", data(number), "-U", "postgres", "-A", "trust", "--no-locale", "-E", "UTF8",
		 "--no-sync"});
	std::ofstream(data(number) + "/postgresql.conf", std::ios::app)
		<< "include '" << settings << "'\n"
		<< "listen_addresses = ''\n"
		<< "max_connections = 40\n"
		<< "shared_buffers = 32MB\n"
		<< "dynamic_shared_memory_type = mmap\n" /* a killed server leaves nothing behind */
		<< "wal_retrieve_retry_interval = 100ms\n"
		<< "wal_keep_size = 256MB\n"
		<< "deadlock_timeout = 200ms\n"
		<< "include_if_exists 'standby.conf'\n"
		<< "include 'torture.conf'\n";
	start(number);
	Connection connection;
	if (!connection.try_open(conninfo(number), number))
		throw std::runtime_error("cannot connect to the server");
	connection.run("CREATE EXTENSION pgq_ext" + (from.empty() ? "" : " VERSION '" + from + "'"));
	connection.close();
	/*
	 * Let commits wait for a standby. The file is read at the next start, also by all later
	 * standbys.
	 */
	std::ofstream(data(number) + "/standby.conf") << "synchronous_standby_names = '*'\n";
	build_standby();
	stop(number, "fast");
	start(number);
	created = true;
}

void
Cluster::update()
{
	Connection connection;
	auto [where, number] = primary();
	if (!connection.try_open(where, number))
		throw std::runtime_error("cannot connect to the server");
	connection.run("ALTER EXTENSION pgq_ext UPDATE");
}

void
Cluster::build_standby()
{
	standby_number = ++last_number;
	run({"pg_basebackup", "-d", conninfo(primary_number), "-D", data(standby_number), "-R", "-c",
		 "fast", "--no-sync"});
	start(standby_number);
}

void
Cluster::stop(const char *mode)
{
	stop(primary_number, mode);
}

void
Cluster::start()
{
	scheduler = random.chance(85);
	start(primary_number, scheduler ? kWorkers : kLaunchersOnly);
}

void
Cluster::failover(bool kill)
{
	int old = primary_number;
	/* The standby may have been restarted a moment ago: wait until it streams. */
	wait_for(old, "'sync' IN (SELECT sync_state FROM pg_stat_replication)");
	if (kill)
		kill_all(old);
	else
		stop(old, "immediate");
	run({"pg_ctl", "-D", data(standby_number), "-t", "180", "-w", "promote"});
	{
		std::lock_guard lock(mutex);
		primary_number = standby_number;
	}
	scheduler = true;
	discard(old);
	build_standby();
}

} // namespace torture
