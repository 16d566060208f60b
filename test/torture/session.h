/*
 * A client of the queues that tells the ledger all that it does.
 *
 * A transaction that writes also inserts its number into torture.tx. If its end is not known,
 * because the connection broke during COMMIT, `resolve` inserts the same number on another
 * connection. This insert waits for the lost transaction, if that is still running. Then there are
 * two cases. A duplicate key shows that the lost transaction is committed. If the insert succeeds,
 * the lost transaction is not committed and never will be: if its backend still tries, it fails
 * with a duplicate key. So the question is also the decision. It is answered by a commit that the
 * standby has confirmed, so a failover cannot change it.
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
	Time expires_in = 0; /* 0: the job does not expire */
};

struct ClaimSpec
{
	std::vector<std::string> queues; /* with more than one, pgq_claim_any is called */
	int max_jobs = 1;
	Time wait = 0;
	Time lease_time = kSecond;
	bool session_bound = false;
	/* if set, pgq_ack_claim is called to end these leases */
	const std::vector<Held> *acked = nullptr;
};

/* Return the names as an SQL parameter. */
std::string array_of(const std::vector<std::string> &names);
/* Return the job ids and the tokens as SQL parameters. */
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

/*
 * Return the max_attempts of a job: some jobs have fewer attempts than their queue allows. NULL: as
 * the queue.
 */
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

/*
 * Return the headers of a job as the server prints them. Some are too large to be stored in the row
 * itself.
 */
Parameter headers(Key key);

inline Parameter
group_key(const std::string &queue, Key key)
{
	int group = group_of(queue, key);
	return group == 0 ? Parameter{} : "group " + number(group);
}

/* Return whether the error says that the row was just being moved to another segment. */
bool is_moved_row(const SqlError &error);

class Session
{
public:
	Session(World &world) : world(world) {}

	World &world;
	Connection connection;

	/* Connect, trying until the primary answers. */
	void connect();
	void connect_if_broken();

	/* Each of these is a transaction of its own. */
	void enqueue(const std::string &queue, const JobSpec &job);
	std::vector<Held> claim(const ClaimSpec &spec);
	void ack(const Held &held);
	/*
	 * Return the number of rows that the scheduler has moved to another segment since the server
	 * started.
	 */
	int64_t moved_rows();
	/* Return whether the scheduler is moving rows at this moment. */
	bool is_moving();
	/*
	 * Extend a lease; takes effect at once, also in a transaction. Returns false if the lease is
	 * stale.
	 */
	bool extend(const Held &held, Time lease_time, const TxRef &tx = nullptr);

	/* Find out how a transaction has ended: committed, aborted, or still prepared. */
	void resolve(const TxRef &tx);
	/*
	 * Note the end of a transaction that was confirmed. If the standby may not have confirmed it,
	 * find out.
	 */
	void ended(const TxRef &tx);

	/* Report a call that has not been answered, with the state of all sessions. */
	void complain(const Hung &hung);
	/*
	 * Judge an error: expected errors are counted, all others are violations. by_hand: the
	 * statement has written or locked rows of pgq_ext.job by SQL.
	 */
	void judge(const SqlError &error, bool temporary_queue = false, bool by_hand = false);

private:
	friend class Transaction;
	std::vector<Held> claim(const ClaimSpec &spec, const TxRef &tx);
	bool is_prepared(const TxRef &tx);
};

/* Return the name of a prepared transaction. */
std::string gid(const TxRef &tx);

} // namespace torture
