/*
 * A client of the queues that tells the ledger all it does.
 *
 * A transaction that writes also inserts its number into torture.tx. When its end is
 * not known, because the connection broke under its COMMIT, `resolve` inserts the
 * same number on another connection: that waits for the lost transaction if it still
 * runs, and then either finds its number (it is committed), or has taken the number
 * itself (it is not, and never will be: should its backend come so far, it fails with
 * a duplicate key). So the question is also the decision, and because it is answered by
 * a commit of its own, that the standby has confirmed, a failover cannot change it.
 */
#pragma once

#include "connection.h"
#include "random.h"
#include "world.h"

#include <optional>

namespace torture {

struct JobSpec
{
	int priority = 0;
	Time delay = 0;
	Time expires_in = 0; /* 0: never */
};

struct ClaimSpec
{
	std::vector<std::string> queues; /* more than one: pgq_claim_any */
	int max_jobs = 1;
	Time wait = 0;
	Time lease_time = kSecond;
	bool session_bound = false;
	const std::vector<Held> *acked = nullptr; /* pgq_ack_claim, with these */
};

/* As SQL parameters. */
std::string job_ids(const std::vector<Held> &held);
std::string tokens(const std::vector<Held> &held);

inline std::string
number(int64_t n)
{
	return std::to_string(n);
}

inline std::string
milliseconds(Time time)
{
	return number(time / kMillisecond) + " ms";
}

/* Some jobs have fewer attempts than their queue says. NULL: as many. */
inline Parameter
max_attempts(Key key)
{
	return key % 11 == 0 ? number(1 + key / 44 % 4) : Parameter{};
}

inline Parameter
expires_in(const JobSpec &job)
{
	return job.expires_in == 0 ? Parameter{} : milliseconds(job.expires_in);
}

/* As the server writes them. Some jobs have such that do not fit into their row. */
Parameter headers(Key key);

inline Parameter
group_key(const std::string &queue, Key key)
{
	int group = group_of(queue, key);
	return group == 0 ? Parameter{} : "group " + number(group);
}

/* The row that a statement wanted was just being moved to another segment. */
bool is_moved_row(const SqlError &error);

class Session
{
public:
	Session(World &world) : world(world) {}

	World &world;
	Connection connection;

	/* Tries until the primary answers. */
	void connect();
	void connect_if_broken();

	/* Each of these is a transaction of its own. */
	void enqueue(const std::string &queue, const JobSpec &job);
	std::vector<Held> claim(const ClaimSpec &spec);
	void ack(const Held &held);
	/* Rows that the scheduler has moved to another segment in this life of the server. */
	int64_t moved_rows();
	/* Is it moving some right now? */
	bool is_moving();
	/* False: stale. Takes effect at once also inside a transaction. */
	bool extend(const Held &held, Time lease_time, const TxRef &tx = nullptr);

	/* The end of a transaction that nobody knows: committed, aborted, or still prepared. */
	void resolve(const TxRef &tx);
	/* The end was confirmed, but perhaps not by the standby: then it is not known. */
	void ended(const TxRef &tx);

	/* Somebody waits for ever: tells what everybody is doing. */
	void complain(const Hung &hung);
	/*
	 * The judge of errors: those that belong to the game are counted, others are violations.
	 * by_hand: the statement has written or locked rows of pgq_ext.job by SQL.
	 */
	void judge(const SqlError &error, bool temporary_queue = false, bool by_hand = false);

private:
	friend class Transaction;
	std::vector<Held> claim(const ClaimSpec &spec, const TxRef &tx);
	bool is_prepared(const TxRef &tx);
};

/* Name of a prepared transaction. */
std::string gid(const TxRef &tx);

} // namespace torture
