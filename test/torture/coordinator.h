/*
 * The calls for locks, runs and rates, and for the jobs of ticks, which also tell the ledgers all
 * that they do.
 */
#pragma once

#include "actor.h"

namespace torture {

inline const std::vector<LockName> kLocks = {
	{.name = "mutex-1"},
	{.name = "mutex-2"},
	{.name = "pool-of-2", .slots = 2},
	{.name = "pool-of-3", .slots = 3},
	{.name = "leader", .bound = true},
	{.name = "leaders", .slots = 2, .bound = true},
};
inline const std::vector<LockName> kPeriodicRuns = {
	{.name = "each-second", .period = "1 s", .is_run = true},
	{.name = "each-third-second", .period = "3 s", .is_run = true},
};
inline const std::vector<RateName> kRates = {
	{.name = "one-by-one", .permits = 5, .period = kSecond, .burst = 1},
	{.name = "burst", .permits = 20, .period = 2 * kSecond, .burst = 8},
	{.name = "all-at-once", .permits = 6, .period = kSecond, .burst = 6},
};

/* Return the run number `which` among those that are done only once. */
LockName once(int64_t which);

/*
 * The calls. With a transaction, each is made in it; without one, each is a transaction of its own.
 */
class Coordinating
{
public:
	explicit Coordinating(Session &session) : session(session), ledger(session.world.coordination)
	{}

	/* Begin a new session: locks bound to the session are bound to this one from now on. */
	void new_session() { life = std::make_shared<Time>(0); }

	/* Take a lock or run. Returns NULL if it was not available. */
	GrantRef take(const LockName &of, Time ttl, Time wait, Transaction *tx = nullptr);
	/* Use the grant. Returns false if the token is stale; kAssert and kDone raise PQ001 then. */
	bool use(const GrantRef &grant, Use use, Transaction *tx = nullptr, Time ttl = 0);
	bool take_permits(const RateName &rate, int n, Time wait, Transaction *tx = nullptr);

	/* Claim some jobs of ticks. The caller acks them in a transaction. */
	std::vector<Ticked> claim_ticks(Time wait);
	void ack_ticks(const std::vector<Ticked> &ticks, Transaction &tx);

private:
	Session &session;
	Coordination &ledger;
	Life life = std::make_shared<Time>(0);

	TxRef start(Transaction *tx);
	Rows ask(const TxRef &ref, Transaction *tx, const std::string &call,
			 const std::vector<Parameter> &parameters);
	void end(const TxRef &ref, Transaction *tx);
	void find_bucket(const GrantRef &grant);
};

/* Create the schedules, queues, runs and rates that these calls need. */
void prepare_ticks(Session &session);
void prepare_coordination(Session &session);
/*
 * Check locks, runs, rates and ticks at a quiet point at which all transactions have ended: free
 * locks can be taken, and nothing is lost.
 */
void audit_coordination(Session &session);

} // namespace torture
