/*
 * What the ledger writes down: transactions with their effects, leases, and claims.
 */
#pragma once

#include "queues.h"

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace torture {

/* Identity of one shared memory of a server: the server, and when that memory was created. */
struct Epoch
{
	int server = 0;
	int64_t start = 0;

	auto operator<=>(const Epoch &) const = default;
};

/* What a transaction does to a job, provided that the transaction commits. */
enum class Deed
{
	kEnqueue,
	kClaim,
	kAck,
	kRetry, /* pgq_fail that has returned 'retry' */
	kRelease,
	kBury, /* pgq_fail that has returned 'dead' */
	kExtend,
	kDelete,
	kExpire, /* ended by the scheduler, since its expires_in was over */
	kRevive, /* a dead letter becomes a job again */
	kDropQueue,
};

const char *name_of(Deed deed);

enum class TxState
{
	kOpen,
	kEnding, /* COMMIT was sent: the transaction may be committed at any time from now on */
	kPrepared,
	kCommitted,
	kAborted,
};

struct Effect
{
	Deed deed;
	Key key = 0;
	int64_t token = 0;
	int level = 0;		 /* depth of savepoints at the time of the effect */
	Time not_before = 0; /* for kRetry, kRelease: not handed out before, by the wall clock */
	std::string queue;	 /* only for kDropQueue */
};

struct Tx
{
	int64_t id;
	Epoch epoch;
	TxState state = TxState::kOpen;
	Time ending_sent = 0;
	Time committed_at = 0; /* when the commit was confirmed */
	Time seen_open = 0;	   /* when it last answered, and so was open */
	/* Not 0: the end was not confirmed; it was found out later, on the server of this number. */
	int resolved_on = 0;
	bool was_prepared = false;
	int level = 0;
	std::vector<Effect> effects;
};
using TxRef = std::shared_ptr<Tx>;

/* A lease that a worker has, or once had. */
struct Held
{
	Key key;
	int64_t job_id;
	int64_t token;
	int attempt;
	int max_attempts;
	bool bound = false; /* the lease is bound to the session that has claimed it */
};

/* A call of pgq_claim that was sent and not answered yet. */
struct ClaimCall
{
	Time sent;
	int64_t greatest_token; /* greatest token handed out before the call was sent */
	Epoch epoch;
	std::vector<std::string> queues;
	Time lease_time;
};

/* A row of pgq_ext.claimed_job. */
struct ClaimedRow
{
	Held held;
	int priority;
	std::string queue;
};

} // namespace torture
