/* A transaction of several statements that tells the ledger all it does. */
#pragma once

#include "session.h"

namespace torture {

/*
 * BEGIN ... COMMIT. If there is an error, or the connection breaks, before the end, the transaction
 * is rolled back, by the destructor at the latest.
 */
class Transaction
{
public:
	Transaction(Session &session, const char *isolation = "READ COMMITTED");
	~Transaction();
	Transaction(const Transaction &) = delete;

	Rows run(const std::string &sql, const std::vector<Parameter> &parameters = {});
	/* Insert the transaction's number into torture.tx, before the first write. */
	void mark();
	const TxRef &tx() const { return ref; }

	void enqueue(const std::string &queue, const JobSpec &job);
	/*
	 * Enqueue a job with a unique key. Returns false if another job has the key; with or_error the
	 * server raises 23505 in that case.
	 */
	bool enqueue_keyed(const JobSpec &job, bool or_error);
	void enqueue_many(const std::string &queue, const std::vector<JobSpec> &jobs);
	std::vector<Held> claim(const ClaimSpec &spec);
	/* Acknowledge a job. Raises the server's error, PQ001 if the lease is stale. */
	void ack(const Held &held);
	/* Acknowledge several jobs. Returns the number of leases that were current. */
	size_t ack_many(const std::vector<Held> &held);
	/*
	 * Call pgq_ack_claim, which acknowledges all jobs or none (PQ001). The claim is from the first
	 * queue, and does not wait.
	 */
	std::vector<Held> ack_claim(const std::vector<Held> &held, ClaimSpec spec);
	/* Fail a job. Returns "retry", "dead" or "stale". */
	std::string fail(const Held &held, std::optional<Time> retry_in, bool retry = true);

	/* Release a job. Returns false if the lease is stale. */
	bool release(const Held &held, Time delay);
	/* Calls that end nothing, with errors as of ack(). */
	void assert_lease(const Held &held);
	void note_progress(const Held &held);

	void savepoint();
	void release_savepoint();
	void roll_back_to_savepoint();

	void commit();
	void roll_back();
	/* Prepare the transaction, and put it into the pool of prepared transactions. */
	void prepare();

private:
	/* Make a call that raises PQ001 if the lease is stale. */
	void use(const Held &held, const std::string &call, const std::vector<Parameter> &more = {});

	Session &session;
	TxRef ref;
	bool marked = false;
	/* level of the savepoint under which mark() was called: a rollback to it undoes the mark */
	int marked_level = 0;
	bool open = true;
};

} // namespace torture
