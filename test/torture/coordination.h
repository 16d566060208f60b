/*
 * What the clients know of locks, runs and rates: every token, how it was used, and when.
 *
 * A lock was held for certain in a *span* of time if nobody else can have had it then, whatever
 * became of what has had no answer. Spans are judged now and then, when most answers are known;
 * rates at once. Guarded by the ledger's mutex, since all depends on the ends of transactions.
 */
#pragma once

#include "ledger.h"

#include <memory>
#include <string>
#include <vector>

namespace torture {

/* When a session was last seen alive: what is bound to it was held until then. */
using Life = std::shared_ptr<Time>;

/* What can be taken. */
struct LockName
{
	std::string name;
	int slots = 1;
	bool bound = false; /* to the session */
	std::string period; /* of a run; empty: once for ever */
	bool is_run = false;
};

enum class Use
{
	kAssert,
	kExtend,
	kUnlock,
	kDone, /* of a run */
};

struct Usage
{
	Use use;
	TxRef tx;
	Epoch epoch;
	Time sent;
	Time answered = 0;
	Time ttl = 0;			 /* kExtend */
	Time undone = INT64_MAX; /* ROLLBACK TO SAVEPOINT was sent */
	bool accepted = false;
	bool refused = false;
};
using UsageRef = std::shared_ptr<Usage>;

/* A token that somebody has received. */
struct Grant
{
	LockName of;
	std::string bucket; /* of a run: which one; empty: not known */
	int64_t token;
	Epoch epoch;
	TxRef taker;
	Time sent;
	Time received;
	Time ttl;
	Life session; /* NULL: it is not bound to one */
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
	/* Before it is sent. */
	UsageRef using_it(const GrantRef &grant, Use use, const TxRef &tx, Epoch epoch, Time ttl);
	void accepted(const UsageRef &usage);
	void refused(const UsageRef &usage);
	/* It has just answered, so it is open, and its session alive. */
	void seen_open(const TxRef &tx, const Life &session);
	/* What it has done from then on will be undone by ROLLBACK TO SAVEPOINT. */
	void undoing(const TxRef &tx, Time from);

	void took(const RateName &rate, int permits, Time sent);

	/* All rules but that of rates, now and then. */
	void audit();
	/* (name, bucket) of the runs that are done. */
	std::set<std::pair<std::string, std::string>> done_runs();

	/* What was seen; a run without any of these proves nothing. */
	std::atomic<long> locks = 0;
	std::atomic<long> taken_over = 0; /* from who has not given it back */
	std::atomic<long> runs = 0;		  /* done */
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
	/* By name, in the order in which they became known. */
	std::map<std::string, std::vector<GrantRef>> names;
	std::map<std::string, int64_t> forgotten; /* the greatest token of each that was pruned */
	struct Done
	{
		TxRef tx;
		int64_t token;
	};
	std::map<std::pair<std::string, std::string>, Done> done;
	std::map<std::string, std::deque<std::pair<Time, int>>> taken;
};

} // namespace torture
