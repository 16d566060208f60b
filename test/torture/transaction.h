/* A transaction of several statements that tells the ledger all it does. */
#pragma once

#include "session.h"

namespace torture {

/*
 * BEGIN ... COMMIT. An error or a broken connection in the middle rolls it back, at
 * the latest in the destructor.
 */
class Transaction
{
public:
	Transaction(Session &session, const char *isolation = "READ COMMITTED");
	~Transaction();
	Transaction(const Transaction &) = delete;

	Rows run(const std::string &sql, const std::vector<Parameter> &parameters = {});
	/* It is going to write: inserts its number. */
	void mark();
	const TxRef &tx() const { return ref; }

	void enqueue(const std::string &queue, const JobSpec &job);
	/* A job with a unique key. False: another one has it; with or_error the server says so by 23505. */
	bool enqueue_keyed(const JobSpec &job, bool or_error);
	void enqueue_many(const std::string &queue, const std::vector<JobSpec> &jobs);
	std::vector<Held> claim(const ClaimSpec &spec);
	/* Errors as the server gives them: PQ001 if stale. */
	void ack(const Held &held);
	/* How many were current. */
	size_t ack_many(const std::vector<Held> &held);
	/* All, or none (PQ001). The claim is of the first queue, and does not wait. */
	std::vector<Held> ack_claim(const std::vector<Held> &held, ClaimSpec spec);
	/* "retry", "dead" or "stale" */
	std::string fail(const Held &held, std::optional<Time> retry_in, bool retry = true);

	/* False: stale. */
	bool release(const Held &held, Time delay);
	/* As ack(), but they end nothing. */
	void assert_lease(const Held &held);
	void note_progress(const Held &held);

	void savepoint();
	void release_savepoint();
	void roll_back_to_savepoint();

	void commit();
	void roll_back();
	/* The pool of prepared transactions has it then. */
	void prepare();

private:
	/* One of those that raise PQ001 if the lease is stale. */
	void use(const Held &held, const std::string &call, const std::vector<Parameter> &more = {});

	Session &session;
	TxRef ref;
	bool marked = false;
	int marked_level = 0; /* the savepoint it was done under: a rollback to it undoes it */
	bool open = true;
};

} // namespace torture
