/*
 * The clients' knowledge of locks, runs and rates: every token, how it was used, and when.
 *
 * A *span* is a time for which a lock was certainly held: no other session can have had it then,
 * even if calls without an answer were executed. Spans are computed from time to time, when most
 * answers are known. Protected by the ledger's mutex, since everything depends on the ends of
 * transactions.
 */
#pragma once

#include "ledger.h"

#include <memory>
#include <string>
#include <vector>

namespace torture {

/* When the session was last seen alive: locks bound to it were held at least until then. */
using Life = std::shared_ptr<Time>;

/* A lock or run that can be taken. */
struct LockName
{
	std::string name;
	int slots = 1;
	bool bound = false; /* the lock is bound to the session */
	std::string period; /* for a run: its period; empty: the run is done only once */
	bool is_run = false;
};

enum class Use
{
	kAssert,
	kExtend,
	kUnlock,
	kDone, /* finishes a run */
};

struct Usage
{
	Use use;
	TxRef tx;
	Epoch epoch;
	Time sent;
	Time answered = 0;
	Time ttl = 0;			 /* only for kExtend */
	Time undone = INT64_MAX; /* when ROLLBACK TO SAVEPOINT was sent; INT64_MAX: not undone */
	bool accepted = false;
	bool refused = false;
};
using UsageRef = std::shared_ptr<Usage>;

/* A token that an actor has received. */
struct Grant
{
	LockName of;
	std::string bucket; /* for a run: the begin of its period; empty: not known */
	int64_t token;
	Epoch epoch;
	TxRef taker;
	Time sent;
	Time received;
	Time ttl;
	Life session; /* NULL: the lock is not bound to a session */
	Time undone = INT64_MAX;
	std::vector<UsageRef> usages;

	bool ends_by(Use use) const { return use == Use::kUnlock || use == Use::kDone; }
};
using GrantRef = std::shared_ptr<Grant>;

struct RateName
{
	std::string name;
	int permits;
	Time period;
	int burst;
};

class Coordination
{
public:
	explicit Coordination(Ledger &ledger) : ledger(ledger) {}

	GrantRef granted(const LockName &of, int64_t token, const TxRef &taker, Time sent, Time ttl,
					 const Life &session);
	void belongs_to(const GrantRef &grant, const std::string &bucket);
	/* Note a use of the grant. Call before the statement is sent. */
	UsageRef using_it(const GrantRef &grant, Use use, const TxRef &tx, Epoch epoch, Time ttl);
	void accepted(const UsageRef &usage);
	void refused(const UsageRef &usage);
	/* The transaction has just answered, so it is open and its session is alive. */
	void seen_open(const TxRef &tx, const Life &session);
	/*
	 * Note that a ROLLBACK TO SAVEPOINT is about to undo all that the transaction has done since
	 * `from`.
	 */
	void undoing(const TxRef &tx, Time from);

	void took(const RateName &rate, int permits, Time sent);

	/* Check all rules except that of rates. Called from time to time. */
	void audit();
	/* Return (name, bucket) of the runs that are done. */
	std::set<std::pair<std::string, std::string>> done_runs();

	/* Counters of events. A test run in which one of them is 0 proves nothing. */
	std::atomic<long> locks = 0;
	std::atomic<long> taken_over = 0; /* locks taken from a holder that has not given them back */
	std::atomic<long> runs = 0;		  /* runs that are done */
	std::atomic<long> permits = 0;

private:
	using Span = std::pair<Time, Time>;

	static bool is_certain(const TxRef &tx, Time undone);
	static bool is_void(const TxRef &tx, Time undone);
	static Time open_until(const TxRef &tx, Time undone);
	static std::vector<Span> spans(const Grant &grant);
	static bool covers(const std::vector<Span> &spans, Time from, Time to);
	static Time latest_end(const Grant &grant, const Usage &usage);
	static bool relied_on_by(const Grant &grant, const TxRef &tx, Time sent);
	static std::string describe(const Grant &grant);

	void check_holders(const std::vector<GrantRef> &grants);
	void check_usages(const std::vector<GrantRef> &grants, const Grant &grant);
	void check_done(const std::vector<GrantRef> &grants);
	void prune();

	Ledger &ledger;
	/* Grants by name, in the order in which the test learned of them. */
	std::map<std::string, std::vector<GrantRef>> names;
	/* by name: the greatest token among the grants that were removed */
	std::map<std::string, int64_t> forgotten;
	struct Done
	{
		TxRef tx;
		int64_t token;
	};
	std::map<std::pair<std::string, std::string>, Done> done;
	std::map<std::string, std::deque<std::pair<Time, int>>> taken;
};

} // namespace torture
