/*
 * What the clients know: every job, every hand-out, every transaction, and when.
 *
 * The ledger believes only what is certain. What a transaction did counts when its
 * COMMIT was confirmed (or found out later, see Session::resolve); the time of what
 * the server did lies between the sending of a statement and its answer. Each rule
 * is checked as soon as both sides of it are known; a breach is a violation.
 *
 * All functions may be called by any thread.
 */
#pragma once

#include "clock.h"

#include <atomic>
#include <climits>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace torture {

/* The ledger's own name of a job, in its payload; known before the job is sent. */
using Key = int64_t;

/* Queues with rules for groups; their jobs have these groups. The engine is told the same. */
inline const std::string kGroupedQueue = "grouped"; /* group_concurrency 1, and a rate for each */
inline const std::string kFifoQueue = "fifo";
inline const std::string kFairQueue = "fair"; /* one job of a group at a time, too */
/* One whose jobs have unique keys, until they are finished. */
inline const std::string kKeyedQueue = "keyed";
/* One with a limit that is raised and lowered, and one with a rate. */
inline const std::string kLimitedQueue = "limited";
inline const std::string kRatedQueue = "rated";
constexpr int kFirstLimit = 3;
constexpr int kRate = 10;
constexpr int kGroupRate = 2;
constexpr Time kRatePeriod = kSecond;

/* 0: none. */
inline int
owner_of(const std::string &queue, Key key)
{
	static constexpr int kOwners = 5;
	return queue == kKeyedQueue ? 1 + static_cast<int>(key % kOwners) : 0;
}

/* 0: none. */
inline int
group_of(const std::string &queue, Key key)
{
	static constexpr int kGroups = 4;
	bool grouped = queue == kGroupedQueue || queue == kFifoQueue || queue == kFairQueue;
	return grouped ? static_cast<int>(key % kGroups) : 0;
}

/* One life of the server's shared memory: which server, and when that memory was made. */
struct Epoch
{
	int server = 0;
	int64_t start = 0;

	auto operator<=>(const Epoch &) const = default;
};

/* What a transaction does to a job if it commits. */
enum class Deed
{
	kEnqueue,
	kClaim,
	kAck,
	kRetry, /* pgq_fail that said 'retry' */
	kRelease,
	kBury, /* pgq_fail that said 'dead' */
	kExtend,
	kDelete,
	kExpire, /* by nobody: its time is over */
	kRevive, /* a dead one is a job again */
	kDropQueue,
};

const char *name_of(Deed deed);

enum class TxState
{
	kOpen,
	kEnding, /* COMMIT was sent: it may be committed at any time from now on */
	kPrepared,
	kCommitted,
	kAborted,
};

struct Effect
{
	Deed deed;
	Key key = 0;
	int64_t token = 0;
	int level = 0;		 /* depth of savepoints */
	Time not_before = 0; /* kRetry, kRelease: by the wall clock */
	std::string queue;	 /* kDropQueue */
};

struct Tx
{
	int64_t id;
	Epoch epoch;
	TxState state = TxState::kOpen;
	Time ending_sent = 0;
	Time committed_at = 0; /* as far as we know */
	Time seen_open = 0;	   /* it has answered */
	/* Nobody confirmed its end: it was asked for later, on this server. */
	int resolved_on = 0;
	bool was_prepared = false;
	int level = 0;
	std::vector<Effect> effects;
};
using TxRef = std::shared_ptr<Tx>;

/* A job in somebody's hands, or that was. */
struct Held
{
	Key key;
	int64_t job_id;
	int64_t token;
	int attempt;
	int max_attempts;
	bool bound = false; /* to the session that has claimed it */
};

/* A call of pgq_claim on its way. */
struct ClaimCall
{
	Time sent;
	int64_t greatest_token; /* of those that had been handed out before */
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

class Ledger
{
public:
	/* ---- transactions ---- */

	TxRef begin(Epoch epoch);
	void savepoint(const TxRef &tx);
	void release_savepoint(const TxRef &tx);
	void rolled_back_to_savepoint(const TxRef &tx);
	/* Before COMMIT, ROLLBACK PREPARED, or a statement of its own is sent. */
	void ending(const TxRef &tx);
	void prepared(const TxRef &tx);
	void committed(const TxRef &tx, int resolved_on = 0);
	void aborted(const TxRef &tx, int resolved_on = 0);

	/* ---- jobs ---- */

	/* Before it is sent. delay: not handed out earlier; expires_in: nor later, unless it is 0. */
	Key enqueuing(const TxRef &tx, const std::string &queue, int priority, Time delay,
				  Time expires_in = 0);
	void enqueued(Key key, int64_t job_id);
	/* No: another job has its unique key. */
	void met(const TxRef &tx, Key key);

	ClaimCall claiming(Epoch epoch, std::vector<std::string> queues, Time lease_time);
	/* tx: NULL if the claim was a statement of its own. */
	void claimed(const ClaimCall &call, const TxRef &tx, const std::vector<ClaimedRow> &rows);
	/* No answer, or an error: something may have been handed out, unseen. */
	void claim_failed(const ClaimCall &call);

	/* A statement of its own, about to be sent, will end the lease if it succeeds. */
	void intend(const TxRef &tx, const Held &held, Deed deed);
	/* pgq_ack, pgq_fail was content with the lease. */
	void accepted(const TxRef &tx, const Held &held, Deed deed, Time sent, Time not_before = 0);
	/* pgq_extend has said that the lease does not end before sent + lease_time. */
	void extended(const Held &held, Epoch epoch, Time sent, Time lease_time);
	/* It said that the lease is stale. tx: the transaction that asked. */
	void refused(const TxRef &tx, const Held &held, Epoch epoch);

	/* ---- the administrator ---- */

	void deleted(const TxRef &tx, const std::vector<Key> &keys);
	/* By pgq_purge_queue, which leaves alone what is in work. */
	void purged(const TxRef &tx, const std::vector<Key> &keys);
	/* ... but in fact only these. */
	void deleted_only(const TxRef &tx, const std::set<Key> &keys);
	/* pgq_result says so. */
	void seen_acked(Key key);
	/* Whoever has them may be told that they are cancelled: then nothing about their leases is certain any more. */
	void revoked(const std::vector<Key> &keys);
	void dropped_queue(const TxRef &tx, const std::string &queue);
	/* Dead letters that somebody has seen will be jobs again. Returns those of which that can be said. */
	std::set<Key> reviving(const TxRef &tx, const std::set<Key> &dead);
	/* ... but in fact only these. */
	void revived_only(const TxRef &tx, const std::set<Key> &keys);
	/* The concurrency of kLimitedQueue will be this. 0: none. */
	void limiting(const TxRef &tx, int limit);
	/* Somebody else may have changed priority and run_at. */
	void touched(const std::vector<Key> &keys);
	/* A queue that may be dropped at any time. */
	void temporary(const std::string &queue);
	bool is_temporary(const std::string &queue);
	/* (key, job id) of up to n jobs that should be there, from a random place on. */
	std::vector<std::pair<Key, int64_t>> some_live(size_t place, size_t n,
												   const std::string &spared_queue = "");
	std::set<Key> live_in(const std::string &queue);
	/* Those of them that will be handed out some time: their time is not over. */
	std::set<Key> awaited_in(const std::string &queue);
	size_t live_count();
	void scheduler_disturbed();
	void without_scheduler(bool missing);

	/* ---- quiet points: nobody else is at work ---- */

	/* Compare with the rows of job and dead_job (key, attempts, max_attempts). */
	struct DeadRow
	{
		int attempts;
		int max_attempts;
		std::string reason;
	};
	void audit(const std::set<Key> &jobs, const std::map<Key, DeadRow> &dead);
	/* Forget what has been finished for a while; a later hand-out is a violation all the same. */
	void prune();

	/* A fast stop, which saves the leases, begins, and the next start has ended: microseconds of the wall clock. */
	void stopping_fast(Time at);
	void started_again(Time at);

	/* ---- violations ---- */

	void violation(const std::string &what);
	void violation(const std::string &what, Key key);
	int violations() const { return violation_count; }
	/* Leases of a former memory that were accepted. */
	long late_acks() const { return late_ack_count; }

private:
	friend class Coordination;
	friend class Timetable;

	struct HandOut
	{
		enum class State
		{
			kOpen, /* its claim is not committed */
			kHeld,
			kOver, /* ended, lost, or nobody knows */
		};
		int64_t token;
		int attempt;
		int max_attempts;
		Epoch epoch;
		Time sent;
		Time received;
		Time until; /* certainly not expired before */
		State state;
		TxRef claimer; /* NULL: a statement of its own */
		TxRef ender;   /* that has acked or failed it, and has not ended */
		Deed end = Deed::kAck;
		bool failed = false;	/* pgq_fail is committed: counts as an attempt for certain */
		bool released = false;	/* pgq_release is: it counts as none */
		bool releasing = false; /* ... or may be by now */
	};

	struct Event
	{
		Time time;
		const char *what;
		int64_t tx;
		int64_t token;
		int64_t number;
	};

	struct Job
	{
		Key key;
		int64_t id = 0;
		std::string queue;
		int priority;
		TxRef creator;
		Time sent_at = 0;	 /* its enqueue */
		Time visible_at = 0; /* to every claim sent after; 0: not yet */
		Time not_before;	 /* by the wall clock; 0: not known any more */
		Time delay;			 /* counts from the moment when the server got to it */
		Time due_by = INT64_MAX;
		Time expires_in = 0;
		/* Not earlier, and not later, by the wall clock. */
		Time expires_from = INT64_MAX;
		Time expires_by = INT64_MAX;
		bool undone = false;
		bool touched = false;
		int deleters = 0;		 /* transactions that may have deleted it */
		size_t place = SIZE_MAX; /* in live */
		std::map<int64_t, HandOut> hand_outs;
		bool ended = false;
		Deed end = Deed::kAck;
		int64_t end_token = 0;
		bool explained = false; /* who had it last has said why it died */
		Epoch end_epoch;
		Time ended_at = 0;
		/* It was dead: a new life begins after that lease. */
		int revivers = 0; /* transactions that may have revived it */
		int64_t revived_token = -1;
		Time revived_at = 0;
		bool ended_anew = false; /* before we knew of its new life */
		std::deque<Event> history;
	};

	Job *find(Key key);
	HandOut *find(Job *job, int64_t token);
	void note(Job *job, const char *what, const TxRef &tx, int64_t token = 0, int64_t number = 0);
	void breach(const std::string &what, const Job *job);
	std::string describe(const Job &job);

	void apply(const TxRef &tx, const Effect &effect);
	void undo(const TxRef &tx, const Effect &effect);
	void revive(Job *job);
	void bury(Job *job, Deed deed, int64_t token, Epoch epoch);
	void finish(Job *job, const TxRef &tx, const Effect &effect);
	/* pgq_fail tells why the last attempt was lost, of which the job has died already. Once. */
	static bool explains(const Job &job, Deed deed, int64_t token);
	void found_dead(Job *job, int64_t attempts);
	void begin_new_life(Job *job, const TxRef &tx);
	void no_new_life(Job *job, const TxRef &tx);

	/* rules.cpp */
	void check_existence(Job *job, const HandOut &h);
	void check_not_held(Job *job, const HandOut &later);
	void check_group(Job *job, const HandOut &later);
	bool may_have_ended(const Job &job);
	static bool may_have_expired(const Job &job)
	{
		return wall() >= job.expires_from - clock_margin();
	}
	static bool runs_beside(const HandOut &h, const HandOut &later);
	void check_attempt(Job *job, const HandOut &hand_out);
	void check_suspects();
	void check_empty(const ClaimCall &call);
	void check_missed();
	void check_newest(Job *job, const HandOut &used, Deed deed, Epoch epoch, Time sent);
	void check_end(Job *job, const HandOut &ended, const TxRef &tx, Deed deed);
	void check_refusal(Job *job, const HandOut &h, const TxRef &tx, Epoch epoch);
	bool carried_over(Epoch from, Epoch to) const;
	/* limits.cpp */
	void check_limits(const ClaimCall &call, const std::vector<ClaimedRow> &rows);
	int greatest_limit(Time from, Time to);
	std::string describe_limits(Time to) const;
	bool claims_from(const Tx &tx, const std::string &queue);
	void check_rate(const std::string &queue, int group, size_t limit, const ClaimCall &call,
					int rows);
	void check_owner(Job *job);
	int hidden_claims(const std::string &queue, Time from, Time to);
	bool scheduler_excused(const HandOut &before, const HandOut &after);

	std::mutex mutex;
	std::atomic<int> violation_count = 0;
	std::atomic<long> late_ack_count = 0;
	int64_t last_tx = 0;
	Key last_key = 0;
	int64_t greatest_token = 0;
	Time scheduler_disturbed_at = 0;
	bool scheduler_missing = false;
	std::set<Epoch> memories;								/* that a connection has seen */
	std::vector<std::pair<int64_t, int64_t>> fast_restarts; /* from, to */
	std::unordered_map<Key, std::unique_ptr<Job>> jobs;
	std::vector<Key> live; /* committed and not ended */
	std::deque<std::pair<Time, Key>> finished;
	struct Hidden
	{
		Time sent;
		Time failed;
	};
	std::map<std::string, std::deque<Hidden>> hidden;
	/* Claims that found nothing, and a job that they should have found, unless somebody else did. */
	struct Missed
	{
		Key key;
		Time sent;
		Time answered;
	};
	std::vector<Missed> missed;
	/* Hand-outs whose attempt is too great, unless an unseen claim explains it. */
	std::vector<std::pair<Key, int64_t>> suspects;
	struct Limit
	{
		TxRef tx;
		Time sent;
		int limit;
	};
	std::vector<Limit> limits; /* of kLimitedQueue, one after the other */
	/* Of hand-outs of each queue and group that has a rate: when they were asked for. */
	std::map<std::pair<std::string, int>, std::deque<Time>> rated_sent;
	std::set<std::string> temporary_queues;
	std::set<std::string> dropped_queues;
	const Time start = now();
};

} // namespace torture
