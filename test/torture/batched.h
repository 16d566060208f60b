/*
 * What the clients know of batches: which transactions have made and closed them, have added and
 * ended members, and have done the jobs of callbacks. Who does the job of a callback writes an
 * *effect* for it, a row of torture.called, in the same transaction as the ack.
 *
 * Protected by the ledger's mutex, since everything depends on the ends of transactions.
 */
#pragma once

#include "ledger.h"

#include <map>
#include <string>
#include <vector>

namespace torture {

/* The queue of all members, and the queue of all callbacks. */
inline const std::string kMembersQueue = "members";
inline const std::string kCalledQueue = "called";

enum class BatchEvent
{
	kSuccess,
	kFailure,
	kFinish,
};
constexpr int kBatchEvents = 3;
inline constexpr const char *kEventNames[] = {"success", "failure", "finish"};

/* How a client has ended a member. */
enum class MemberEnd
{
	kAck,
	kDeath, /* pgq_fail that has returned 'dead': the member may be revived */
	kGone,	/* cancelled, or deleted by SQL, as a job or as a dead letter */
};

/* A row that was seen at a quiet point. */
struct BatchedRow
{
	enum Kind
	{
		kMember,
		kDeadMember,
		kCallback, /* a job of a callback, which waits */
		kEffect,
	};
	Kind kind;
	Key key;			   /* of the member or of the batch */
	BatchEvent event = {}; /* of a callback or an effect */
};

class Batched
{
public:
	explicit Batched(Ledger &ledger) : ledger(ledger) {}

	/* ---- what happens ---- */

	/* Note that pgq_create_batch is about to be sent. */
	Key creating(const TxRef &tx);
	void created(Key batch, int64_t id);
	/* Note that pgq_close_batch is about to be sent. */
	void closing(const TxRef &tx, Key batch);
	/* Note that an enqueue is about to be sent, which adds a member. Keys of members are negative. */
	Key adding(const TxRef &tx, Key batch, Time expires_in = 0);
	/*
	 * Note that the enqueue has succeeded. in_hand: the transaction has the lease of a member, so the batch
	 * may be closed.
	 */
	void added(Key member, int64_t job_id, bool in_hand = false);
	/* Note that the enqueue was refused, since the batch is closed. */
	void refused(const TxRef &tx, Key member, bool in_hand = false);
	/* Note that a rollback to a savepoint has undone these enqueues. */
	void undone(const std::vector<Key> &members);
	/* Note that the transaction has ended the member, provided that it commits. */
	void ended(const TxRef &tx, Key member, MemberEnd how);
	/* Note that pgq_cancel_batch is about to be sent, which also closes the batch. */
	void cancelling(const TxRef &tx, Key batch);
	/* Note that pgq_purge_queue is about to be sent. */
	void purging(const TxRef &tx);
	/* Note that a claim has returned the job of a callback, and that its effect is about to be written. */
	void calling(const TxRef &tx, Key batch, int64_t id, BatchEvent event,
				 const std::string &event_name);

	struct Known
	{
		Key key;
		int64_t id;
	};
	/* Return a committed batch, usually one of the newest. Returns false if there is none. */
	bool some_batch(size_t place, Known *batch);
	/* Return committed members that may be there, from a random place on. */
	std::vector<Known> some_members(size_t place, size_t n);
	/* Return the committed batches for which no close was committed. */
	std::vector<Known> open_batches();
	/* Return the batch of a member; 0 if the member is not known. */
	Known batch_of(Key member);

	/* ---- quiet points: no transaction is open, but some may be prepared ---- */

	/* Check all rows. drained: all batches are closed, all members have ended, all callbacks are done. */
	void audit(const std::vector<BatchedRow> &rows, bool drained);
	/* Return what is missing if all members in the rows have ended; empty: nothing. */
	std::string missing(const std::vector<BatchedRow> &rows);
	/*
	 * Return the batches whose effects the transaction is about to delete, since nothing will happen to them
	 * any more. A callback of such a batch that is seen later is a violation.
	 */
	std::vector<Key> forgetting(const TxRef &tx, const std::vector<BatchedRow> &rows);
	/* Forget the batches whose effects are certainly deleted. */
	void forget();

	/* Numbers for the output, of batches that were forgotten. */
	std::atomic<long> done = 0;
	std::atomic<long> members_done = 0;
	std::atomic<long> callbacks[kBatchEvents] = {};
	std::atomic<long> refusals = 0;		 /* enqueues into a closed batch */
	std::atomic<long> added_in_hand = 0; /* members that were added by a member in work */
	std::atomic<long> cancels = 0;		 /* batches that were cancelled */

private:
	struct End
	{
		TxRef tx;
		MemberEnd how;
	};
	struct Call
	{
		TxRef tx;
		BatchEvent event;
		Time received;
	};
	struct Member
	{
		Key batch;
		int64_t id = 0;
		TxRef creator;
		Time sent;
		Time expires_in;
		bool undone = false;
		std::vector<End> ends;
	};
	struct Batch
	{
		int64_t id = 0;
		TxRef creator;
		std::vector<TxRef> closers; /* cancels are among them */
		std::vector<TxRef> cancels;
		std::vector<Key> members;
		std::vector<Call> calls;
		TxRef forgetter;
	};
	/* The rows of a batch. */
	struct Found
	{
		int live = 0;
		int dead = 0;
		int waiting[kBatchEvents] = {};
		int effects[kBatchEvents] = {};

		int of(BatchEvent event) const
		{
			return waiting[static_cast<int>(event)] + effects[static_cast<int>(event)];
		}
	};

	static bool is_committed(const TxRef &tx) { return tx->state == TxState::kCommitted; }
	static bool may_commit(const TxRef &tx);
	static bool was_sent(const TxRef &tx, Time by)
	{
		return is_committed(tx) && tx->ending_sent <= by;
	}
	static bool has_close(const Batch &batch, Time by);
	static bool exists(const Member &member)
	{
		return is_committed(member.creator) && !member.undone;
	}
	bool has_end(const Member &member, Time by) const;
	static bool is_late(const Batch &batch, const Member &member);
	static bool has_end(const Member &member, MemberEnd how, Time by);
	std::map<Key, Found> sort(const std::vector<BatchedRow> &rows);
	void breach(const std::string &what, Key batch);
	std::string describe(Key key, const Member &member) const;
	void check_member(Key key, const Member &member, int live, int dead);
	void check_event(Key key, const Batch &batch, const Found &rows, BatchEvent event);
	std::string missing(const Batch &batch, const Found &rows) const;

	Ledger &ledger;
	Key last_batch = 0;
	Key last_member = 0;
	std::map<Key, Batch> batches;
	std::map<Key, Member> members;
	std::vector<TxRef> purges;
};

} // namespace torture
