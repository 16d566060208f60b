/*
 * The ledger: all that the clients know of jobs, hand-outs and transactions, and when they learned
 * it.
 *
 * The ledger uses only what is certain. Changes by a transaction count when its COMMIT was
 * confirmed (or was found out later, see Session::resolve). The time of an event in the server lies
 * between the sending of the statement and its answer. Each rule is checked as soon as both sides
 * of it are known; a breach is a violation.
 *
 * All functions may be called by any thread.
 */
#pragma once

#include "deeds.h"

#include <atomic>
#include <climits>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace torture {

class Ledger
{
public:
	/* ---- transactions ---- */

	TxRef begin(Epoch epoch);
	void savepoint(const TxRef &tx);
	void release_savepoint(const TxRef &tx);
	void rolled_back_to_savepoint(const TxRef &tx);
	/*
	 * Note that COMMIT, ROLLBACK PREPARED, or a single-statement transaction is about to be sent.
	 */
	void ending(const TxRef &tx);
	void prepared(const TxRef &tx);
	void committed(const TxRef &tx, int resolved_on = 0);
	void aborted(const TxRef &tx, int resolved_on = 0);

	/* ---- jobs ---- */

	/*
	 * Note that an enqueue is about to be sent. The job must not be handed out before `delay` is
	 * over, nor after `expires_in` is over, unless that is 0.
	 */
	Key enqueuing(const TxRef &tx, const std::string &queue, int priority, Time delay,
				  Time expires_in = 0);
	void enqueued(Key key, int64_t job_id);
	/* The enqueue made no job: another job has its unique key. */
	void met(const TxRef &tx, Key key);

	ClaimCall claiming(Epoch epoch, std::vector<std::string> queues, Time lease_time);
	/* Note the result of a claim. tx: NULL if the claim was a transaction of its own. */
	void claimed(const ClaimCall &call, const TxRef &tx, const std::vector<ClaimedRow> &rows);
	/*
	 * Note a claim with an error: jobs may have been set aside. broken: the claim has no answer, so
	 * jobs may have been handed out unseen.
	 */
	void claim_failed(const ClaimCall &call, bool broken = true);
	/* Note a claim with error 53400, which has handed out nothing. */
	void claim_refused(const ClaimCall &call);

	/*
	 * Note that a single-statement transaction is about to be sent, which ends the lease if it
	 * succeeds.
	 */
	void intend(const TxRef &tx, const Held &held, Deed deed);
	/* Note that pgq_ack or pgq_fail has accepted the lease. */
	void accepted(const TxRef &tx, const Held &held, Deed deed, Time sent, Time not_before = 0);
	/* Note that pgq_extend was successful: the lease does not end before sent + lease_time. */
	void extended(const Held &held, Epoch epoch, Time sent, Time lease_time);
	/* Note that a call has found the lease stale. tx: the transaction of the call. */
	void refused(const TxRef &tx, const Held &held, Epoch epoch);

	/* ---- the administrator ---- */

	void deleted(const TxRef &tx, const std::vector<Key> &keys);
	/* Note jobs that pgq_purge_queue may have deleted; it leaves jobs in work alone. */
	void purged(const TxRef &tx, const std::vector<Key> &keys);
	/* Note that deleted() or purged() has in fact deleted only these jobs. */
	void deleted_only(const TxRef &tx, const std::set<Key> &keys);
	/* Note that pgq_result reports the job as acknowledged. */
	void seen_acked(Key key);
	/*
	 * Note that the jobs may be cancelled. Their workers may be told so; from then on nothing about
	 * their leases is certain.
	 */
	void revoked(const std::vector<Key> &keys);
	/* Note that pgq_finish may end the jobs, so that they count as acknowledged. */
	void finishing(const std::vector<Key> &keys);
	void dropped_queue(const TxRef &tx, const std::string &queue);
	/*
	 * Note that dead letters which were seen are about to be revived. Returns those for which the
	 * ledger allows that.
	 */
	std::set<Key> reviving(const TxRef &tx, const std::set<Key> &dead);
	/* Note that reviving() has in fact revived only these. */
	void revived_only(const TxRef &tx, const std::set<Key> &keys);
	/* Note that the concurrency of kLimitedQueue is about to become `limit`; 0: no limit. */
	void limiting(const TxRef &tx, int limit);
	/* Note that the rules of kRuledQueue for groups are about to become these. */
	void ruling(const TxRef &tx, const GroupRules &rules);
	/* Note that priority and run_at of the jobs may have changed. */
	void touched(const std::vector<Key> &keys);
	/* Note a queue that may be dropped at any time. */
	void temporary(const std::string &queue);
	bool is_temporary(const std::string &queue);
	/* Return (key, job id) of up to n live jobs, from a random place on. */
	std::vector<std::pair<Key, int64_t>> some_live(size_t place, size_t n,
												   const std::set<std::string> &spared = {});
	std::set<Key> live_in(const std::string &queue);
	/*
	 * Return the jobs of the queue that a claim must still hand out, since they have not expired.
	 */
	std::set<Key> awaited_in(const std::string &queue);
	size_t live_count();
	void scheduler_disturbed();
	void without_scheduler(bool missing);
	/* Note that rows may have been kept in the middle of a move between these times. */
	void move_kept(Time from, Time to);

	/* ---- quiet points: all actors wait ---- */

	/* Compare the ledger with the rows of job and dead_job (key, attempts, max_attempts). */
	struct DeadRow
	{
		int attempts;
		int max_attempts;
		std::string reason;
	};
	void audit(const std::set<Key> &jobs, const std::map<Key, DeadRow> &dead);
	/*
	 * Forget jobs that have been finished for a while. A later hand-out of one is still a
	 * violation.
	 */
	void prune();

	/*
	 * Note the begin of a fast stop, which saves the leases, and the end of the next start; in
	 * microseconds of the wall clock.
	 */
	void stopping_fast(Time at);
	void started_again(Time at);

	/* ---- violations ---- */

	void violation(const std::string &what);
	void violation(const std::string &what, Key key);
	int violations() const { return violation_count; }
	/* Return the number of accepted acks with leases of an earlier memory. */
	long late_acks() const { return late_ack_count; }

	/* Longest time for which a move keeps a job from claims, unless the move is kept. */
	Time longest_move = kSecond;

private:
	friend class Batched;
	friend class Coordination;
	friend class Graphed;
	friend class Handled;
	friend class Timetable;

	struct HandOut
	{
		enum class State
		{
			kOpen, /* the transaction of its claim is not committed */
			kHeld,
			kOver, /* ended, lost, or not known */
		};
		int64_t token;
		int attempt;
		int max_attempts;
		Epoch epoch;
		Time sent;
		Time received;
		Time until; /* the lease certainly does not expire before */
		State state;
		TxRef claimer; /* NULL: the claim was a transaction of its own */
		TxRef ender;   /* open transaction that has acked or failed the job */
		bool in_time =
			false; /* the lease was certainly current when `ender` acked or failed the job */
		Deed end = Deed::kAck;
		/* its pgq_fail is committed, so it certainly counts as an attempt */
		bool failed = false;
		/* its pgq_release is committed, so it does not count as an attempt */
		bool released = false;
		bool releasing = false; /* a pgq_release may be committed */
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
		bool may_be_finished = false; /* pgq_finish was called for it */
		int group = 0;
		int priority;
		TxRef creator;
		Time sent_at = 0;	 /* when the enqueue was sent */
		Time visible_at = 0; /* visible to every claim sent after this time; 0: not yet */
		Time not_before;	 /* earliest hand-out, by the wall clock; 0: not known any more */
		/* the delay, which counts from the time at which the server executed the enqueue */
		Time delay;
		Time due_by = INT64_MAX;
		Time expires_in = 0;
		/* Earliest and latest time at which the job can expire, by the wall clock. */
		Time expires_from = INT64_MAX;
		Time expires_by = INT64_MAX;
		bool undone = false;
		bool touched = false;
		int deleters = 0;		 /* number of transactions that may have deleted it */
		size_t place = SIZE_MAX; /* index in `live` */
		std::map<int64_t, HandOut> hand_outs;
		bool ended = false;
		Deed end = Deed::kAck;
		int64_t end_token = 0;
		/* the worker of its last lease has reported why the attempt failed */
		bool explained = false;
		Epoch end_epoch;
		Time ended_at = 0;
		/* For a job that was dead: leases up to revived_token belong to its former life. */
		int revivers = 0; /* number of transactions that may have revived it */
		int64_t revived_token = -1;
		int64_t revived_token_before = 0; /* restored if the revival is undone */
		Time revived_at = 0;
		bool ended_anew = false; /* it ended again before the ledger knew that it was revived */
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
	/*
	 * Return whether a pgq_fail reports the error of a lost attempt, after which the job has died.
	 * It may do so once.
	 */
	static bool explains(const Job &job, Deed deed, int64_t token);
	void found_dead(Job *job, int64_t attempts);
	void begin_new_life(Job *job, const TxRef &tx);
	void no_new_life(Job *job, const TxRef &tx);

	/* rules.cpp */
	void check_existence(Job *job, const HandOut &h);
	void check_not_held(Job *job, const HandOut &later);
	bool may_have_ended(const Job &job);
	static bool may_have_expired(const Job &job)
	{
		return wall() >= job.expires_from - clock_margin();
	}
	static bool runs_beside(const HandOut &h, const HandOut &later);
	void check_attempt(Job *job, const HandOut &hand_out);
	void check_suspects();
	struct Missed;
	void check_empty(const ClaimCall &call);
	void check_missed();
	void check_newest(Job *job, const HandOut &used, Deed deed, Epoch epoch, Time sent);
	void check_end(Job *job, const HandOut &ended, const TxRef &tx, Deed deed);
	void check_refusal(Job *job, const HandOut &h, const TxRef &tx, Epoch epoch);
	bool carried_over(Epoch from, Epoch to) const;
	/* groups.cpp */
	std::vector<GroupRules> rules_between(const std::string &queue, Time from, Time to);
	int greatest_room(const std::string &queue, Time from, Time to);
	int greatest_group_rate(const std::string &queue, Time from, Time last);
	bool may_wait_for_time(const std::string &queue, Time from, Time to);
	void check_groups(const ClaimCall &call, const std::vector<ClaimedRow> &rows);
	void check_room(const ClaimCall &call, const std::map<Key, int64_t> &got);
	static bool runs_now(const HandOut &h);
	void check_fifo(const ClaimCall &call, Job *job);
	bool may_be_held_back(const Job &job, const Missed &missed);
	void note_turn(const Job &job, const HandOut &h, int priority);
	void check_turns();
	void check_turns(const Job &job, Time from, Time to);
	int most_turns(Time from, Time to) const;
	/* limits.cpp */
	void check_limits(const ClaimCall &call, const std::vector<ClaimedRow> &rows);
	int greatest_limit(Time from, Time to);
	std::string describe_limits(Time to) const;
	bool claims_from(const Tx &tx, const std::string &queue);
	void check_rate(const std::string &queue, int group, const ClaimCall &call, int rows);
	void check_owner(Job *job);
	int hidden_claims(const std::string &queue, Time from, Time to);
	bool broken_claims(const std::string &queue, Time from, Time to);
	bool refused_claims(const std::string &queue, Time from, Time to);
	bool scheduler_excused(const HandOut &before, const HandOut &after);

	std::mutex mutex;
	std::atomic<int> violation_count = 0;
	std::atomic<long> late_ack_count = 0;
	int64_t last_tx = 0;
	Key last_key = 0;
	int64_t greatest_token = 0;
	Time scheduler_disturbed_at = 0;
	bool scheduler_missing = false;
	/* all memories that a connection has seen */
	std::set<Epoch> memories;
	/* those in which a job was handed out */
	std::set<Epoch> claimed_in;
	/* begin of the stop, end of the start */
	std::vector<std::pair<int64_t, int64_t>> fast_restarts;
	std::unordered_map<Key, std::unique_ptr<Job>> jobs;
	std::vector<Key> live; /* jobs that are committed and not ended */
	std::deque<std::pair<Time, Key>> finished;
	struct Hidden
	{
		Time sent;
		Time failed;
		bool broken = false;
	};
	std::map<std::string, std::deque<Hidden>> hidden;
	std::map<std::string, std::deque<Hidden>> refusals;
	/*
	 * A claim that found nothing, and a job that it should have found, unless another claim had it.
	 */
	struct Missed
	{
		Key key;
		Time sent;
		Time answered;
		bool limited = false; /* the queue may have limited its groups at that time */
	};
	std::vector<Missed> missed;
	/* Hand-outs with too high an attempt, unless a claim whose answer was lost explains it. */
	std::vector<std::pair<Key, int64_t>> suspects;
	struct Limit
	{
		TxRef tx;
		Time sent;
		int limit;
	};
	std::vector<Limit> limits; /* values for kLimitedQueue, in order of time */
	struct Ruling
	{
		TxRef tx;
		Time sent;
		GroupRules rules;
	};
	std::vector<Ruling> rulings; /* rules of kRuledQueue, in order of time */
	/* A hand-out of kTurnsQueue. */
	struct Turn
	{
		int group;
		int priority;
		Epoch epoch;
		Time sent;
		Time received;
	};
	std::vector<Turn> turns; /* since the last quiet point */
	Time turns_since = 0;
	std::deque<std::pair<Time, Time>> kept_moves;
	/* For each queue and group with a rate limit: when the claims of its hand-outs were sent. */
	std::map<std::pair<std::string, int>, std::deque<Time>> rated_sent;
	std::set<std::string> temporary_queues;
	std::set<std::string> dropped_queues;
	const Time start = now();
};

} // namespace torture
