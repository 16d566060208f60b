/* The verbs of locks, runs and rates, and of the jobs of ticks, which tell their ledgers all they do. */
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

/* One that is done once for ever. */
LockName once(int64_t which);

/*
 * With a transaction each of these is done in it; without one it is a transaction of its own.
 */
class Coordinating
{
public:
	explicit Coordinating(Session &session) : session(session), ledger(session.world.coordination)
	{}

	/* What is bound to the session is bound to another one from now on. */
	void new_session() { life = std::make_shared<Time>(0); }

	/* NULL: not got. */
	GrantRef take(const LockName &of, Time ttl, Time wait, Transaction *tx = nullptr);
	/* False: refused. An assertion, and the end of a run, raises PQ001 then. */
	bool use(const GrantRef &grant, Use use, Transaction *tx = nullptr, Time ttl = 0);
	bool take_permits(const RateName &rate, int n, Time wait, Transaction *tx = nullptr);

	/* A number of them, to be ended by a transaction. */
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

/* What they need. */
void prepare_ticks(Session &session);
void prepare_coordination(Session &session);
/* A quiet point at which all transactions have ended: what is free can be had, and nothing is lost. */
void audit_coordination(Session &session);

} // namespace torture
