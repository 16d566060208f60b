/*
 * What the clients know of the jobs that handlers run: which transactions have enqueued and
 * cancelled them. The handler writes an *effect* for each job that it has done, a row of
 * torture.effect, in the transaction of the call. The table must not have a unique key, so that a
 * second effect is seen.
 *
 * Protected by the ledger's mutex, since everything depends on the ends of transactions.
 */
#pragma once

#include "ledger.h"

#include <map>
#include <string>
#include <vector>

namespace torture {

/* The queue whose handler takes one job, and the queue whose handler takes an array of jobs. */
inline const std::string kHandledQueue = "handled";
inline const std::string kManyQueue = "handled_many";
inline const std::vector<std::string> kHandledQueues = {kHandledQueue, kManyQueue};

/*
 * Keys of these jobs are negative, and all other keys are not. A handler enqueues further jobs; the
 * key of such a follow-up job is smaller than that of the job before by this number.
 */
constexpr Key kFollowUp = 1'000'000'000;

/* ---- what a handler does with a job, by its key: as the functions in handler_functions.cpp ---- */

/* The handler enqueues a follow-up job, in the other queue. */
bool has_follow_up(Key key);
/* Number of the first attempts of the job that certainly fail. */
int failing_attempts(Key key);
/* The handler may end the job by pgq_fail without retry, so that it becomes a dead letter. */
bool may_be_buried(Key key);

/* A row that was seen at a quiet point. */
struct HandledRow
{
	enum Kind
	{
		kJob,
		kDead,
		kEffect,
	};
	Kind kind;
	Key key;
	std::string queue;
	int attempt = 0;  /* of an effect */
	std::string text; /* reason of a dead letter; for an effect, the function that wrote it */
};

class Handled
{
public:
	explicit Handled(Ledger &ledger) : ledger(ledger) {}

	/* ---- what happens ---- */

	/* Note that an enqueue is about to be sent. */
	Key enqueuing(const TxRef &tx, const std::string &queue);
	void enqueued(Key key, int64_t job_id);
	/* Note that a rollback to a savepoint has undone these enqueues. */
	void undone(const std::vector<Key> &keys);
	/* Note that pgq_cancel is about to be sent. */
	void cancelling(const TxRef &tx, Key key);
	/* Note the answer of pgq_cancel. found: there was such a job. */
	void cancelled(const TxRef &tx, Key key, bool found);
	/* Note that the transaction locks the row of a handler. */
	void changing(const TxRef &tx);

	/* Return (key, job id) of up to n committed jobs, from a random place on. */
	std::vector<std::pair<Key, int64_t>> some(size_t place, size_t n);
	/* Return whether a prepared transaction has locked a job or a handler. */
	bool is_locked();

	/* ---- quiet points: no worker runs ---- */

	/*
	 * Compare with all rows. drained: no job may be left. kills: number of workers that were killed
	 * so far, each of which may have crashed the server.
	 */
	void audit(const std::vector<HandledRow> &rows, bool drained, long kills);
	/*
	 * Return the keys whose effects the transaction is about to delete, since nothing will happen
	 * to these jobs any more. An effect with such a key that is seen later is a violation.
	 */
	std::vector<Key> forgetting(const TxRef &tx);
	/* Forget the jobs whose effects are certainly deleted. */
	void forget();

	/* Numbers of effects seen, for the output; of jobs that were forgotten. */
	std::atomic<long> done = 0;
	std::atomic<long> done_by_array = 0;
	std::atomic<long> follow_ups = 0;
	std::atomic<long> cancels = 0;		   /* jobs that were certainly cancelled */
	std::atomic<long> cancels_in_work = 0; /* calls of pgq_cancel for a job in work */
	std::atomic<long> crashed = 0; /* dead letters because of crashes, seen at quiet points */

private:
	struct Cancel
	{
		TxRef tx;
		bool answered = false; /* the job was there */
	};

	struct Job
	{
		int64_t id = 0;
		std::string queue;
		TxRef creator;
		bool undone = false;
		std::vector<Cancel> cancels;
		TxRef forgetter;
	};

	/* The rows with one key. */
	struct Found
	{
		int live = 0;
		int dead = 0;
		int effects = 0;
		std::vector<const HandledRow *> all;

		int sum() const { return live + dead + effects; }
	};

	bool is_certain(const Job &job) const;
	bool may_exist(const Job &job) const;
	void breach(const std::string &what, Key key, const Job &job, const Found &rows);
	void check(Key key, const Job &job, const Found &rows, const Found &next, bool drained);
	void check_row(const HandledRow &row, const Job &job, const Found &rows);

	Ledger &ledger;
	Key last_key = 0;
	std::map<Key, Job> jobs;
	std::vector<Key> recent; /* keys for some(), the oldest first */
	std::vector<TxRef> changes;
	std::map<Key, Found> seen; /* at the last audit */
};

} // namespace torture
