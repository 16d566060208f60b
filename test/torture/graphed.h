/*
 * What the clients know of graphs, that is, of jobs that wait for other jobs: which transactions have
 * enqueued and ended them, and which of them claims have returned. The jobs here are all jobs of the queues
 * for graphs, whether they have parents or not. Some are members of a batch, which is made, filled and closed
 * by one transaction. Who does the job of a callback writes an *effect* for it, a row of
 * torture.graph_called, in the same transaction as the ack.
 *
 * Protected by the ledger's mutex, since everything depends on the ends of transactions.
 */
#pragma once

#include "ledger.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace torture {

/* The queue that keeps records of jobs that have ended, the one that does not, and that of callbacks. */
inline const std::string kKeptGraphs = "graphs_kept";
inline const std::string kPlainGraphs = "graphs";
inline const std::string kGraphCalls = "graph_calls";

/* What a job is enqueued with as on_parent_failure. */
enum class OnFailure
{
	kCancel,
	kRun,
	kHold,
};
constexpr int kOnFailures = 3;
inline constexpr const char *kOnFailureNames[] = {"cancel", "run", "hold"};

/* How a client has ended a job. */
enum class NodeEnd
{
	kAck,
	kDeath,	 /* pgq_fail that has returned 'dead': the job may be revived */
	kCancel, /* of a job or a dead letter */
	kDelete, /* of a job or a dead letter, by SQL */
};

enum class GraphEvent
{
	kSuccess,
	kFinish,
};
constexpr int kGraphEvents = 2;

struct GraphParent
{
	Key key;
	bool by_ref; /* named by its ref, in the call that has enqueued both */
};

struct GraphNode
{
	std::string queue;
	std::vector<GraphParent> parents;
	OnFailure on_failure = OnFailure::kCancel;
	Time expires_in = 0;
	Key batch = 0; /* 0: in no batch */
};

/* The ref of a job, and its result. */
std::string graph_ref(Key key);
std::string graph_result(Key key);
/* The error with which jobs die. */
inline const std::string kGraphError = "never";

/* A row of pgq_parents. */
struct ParentRow
{
	int64_t job_id;
	std::optional<std::string> ref;
	std::string state;
	std::optional<std::string> result;
	std::optional<std::string> error;
};

/* A row that was seen at a quiet point. */
struct GraphRow
{
	enum Kind
	{
		kLive,
		kBlocked,
		kDead,
		kCallback, /* a job of a callback, which waits */
		kEffect,
	};
	Kind kind;
	Key key;			   /* of the job or of the batch */
	GraphEvent event = {}; /* of a callback or an effect */
};

class Graphed
{
public:
	explicit Graphed(Ledger &ledger) : ledger(ledger) {}

	/* ---- what happens ---- */

	/* Note that an enqueue is about to be sent. Keys are below zero. */
	Key adding(const TxRef &tx, const GraphNode &node);
	void added(Key key, int64_t job_id);
	/* Note that the enqueue was refused: a parent does not exist. */
	void refused(const std::vector<Key> &keys);
	/* Note that a rollback to a savepoint has undone these enqueues. */
	void undone(const std::vector<Key> &keys);
	/* Note that the transaction has ended the job, provided that it commits. */
	void ended(const TxRef &tx, Key key, NodeEnd how, std::optional<std::string> result = {});
	/* Note that pgq_purge_queue is about to be sent. */
	void purging(const TxRef &tx, const std::string &queue);
	/* Note that a claim has returned the job. */
	void handed_out(Key key, Time received);
	/* Note what pgq_parents has returned to this transaction. */
	void told(const TxRef &tx, Key key, const std::vector<ParentRow> &rows, Time received);

	Key creating_batch(const TxRef &tx);
	/* Note that a claim has returned the job of a callback, and that its effect is about to be written. */
	void calling(const TxRef &tx, Key batch, GraphEvent event, Time received);

	struct Known
	{
		Key key;
		int64_t id;
	};
	/* Return up to n committed jobs from a random place on, usually of the newest; they may have ended. */
	std::vector<Known> some(size_t place, size_t n);
	/* Return up to n committed jobs that may be there, from a random place on. */
	std::vector<Known> some_left(size_t place, size_t n);
	/* Return whether the job has parents. */
	bool is_child(Key key);
	int64_t id_of(Key key);

	/* ---- quiet points: no transaction is open, but some may be prepared ---- */

	/* Check all rows. drained: all jobs have ended, all callbacks are done. */
	void audit(const std::vector<GraphRow> &rows, bool drained);
	/*
	 * Return a blocked job that has nothing to wait for, or one that should be cancelled; empty: there is none.
	 * No transaction is open or prepared.
	 */
	std::string overdue(const std::vector<GraphRow> &rows);
	/* Return a callback that has not come; all jobs have ended. Empty: there is none. */
	std::string missing(const std::vector<GraphRow> &rows);
	/* Forget all, after an audit that was drained. Returns the last batch: effects up to it are not needed. */
	Key forget();

	/* ---- numbers for the output ---- */

	std::atomic<long> graphs = 0;	/* calls of pgq_enqueue_many */
	std::atomic<long> joined = 0;	/* children of jobs of other calls */
	std::atomic<long> late = 0;		/* of them those of jobs that had certainly ended */
	std::atomic<long> refusals = 0; /* enqueues after a job that does not exist */
	std::atomic<long> children[kOnFailures] = {}; /* that were handed out */
	std::atomic<long> parents_told = 0;			  /* rows of pgq_parents */
	std::atomic<long> failed_told = 0;			  /* of them those that were not acknowledged */
	std::atomic<long> cancelled = 0;			  /* by the scheduler, after a parent had failed */
	std::atomic<long> callbacks[kGraphEvents] = {};
	std::atomic<long> collections = 0; /* times that all dependencies and outcomes were gone */

private:
	struct End
	{
		TxRef tx;
		NodeEnd how;
		std::optional<std::string> result;
	};
	struct Node : GraphNode
	{
		int64_t id = 0;
		TxRef creator;
		Time sent = 0;
		bool undone = false;
		bool was_handed_out = false;
		std::vector<End> ends;
	};
	struct Call
	{
		TxRef tx;
		GraphEvent event;
		Time received;
	};
	struct Batch
	{
		TxRef creator;
		std::vector<Key> members;
		std::vector<Call> calls;
	};
	struct Purge
	{
		TxRef tx;
		std::string queue;
	};
	struct Sorted;
	/*
	 * Which transactions count: those that are committed, and whose end was sent by then. seen: also those that
	 * others may have seen as committed, before a crash or a failover undid them. own: this one, too.
	 */
	struct View
	{
		Time by;
		bool seen;
		TxRef own = nullptr;
		const Sorted *rows = nullptr;			 /* a job in them is not gone */
		mutable std::map<Key, bool> failed = {}; /* what may_have_failed() has found */
		mutable std::map<Key, bool> gone = {};	 /* what may_be_lost() has found */

		bool counts(const TxRef &tx) const;
	};
	/* The rows of a batch, by event. */
	struct Found
	{
		int waiting[kGraphEvents] = {};
		int effects[kGraphEvents] = {};
	};
	/* The rows at a quiet point. */
	struct Sorted
	{
		std::map<Key, int> live; /* the blocked ones among them */
		std::map<Key, int> blocked;
		std::map<Key, int> dead;
		std::map<Key, Found> batches;
	};

	static bool exists(const Node &node);
	static const End *find_end(const Node &node, NodeEnd how, const View &view);
	static bool has_end(const Node &node, NodeEnd how, const View &view)
	{
		return find_end(node, how, view) != nullptr;
	}
	static bool may_be_expired(const Node &node, Time by);
	bool may_be_purged(const Node &node, const View &view) const;
	/* Return whether the job may be gone otherwise than by an ack, or may be or have been a dead letter. */
	bool may_have_failed(Key key, const View &view) const;
	/* Return whether the job may be gone otherwise than by an ack. */
	bool may_be_lost(Key key, const View &view) const;
	/* Return whether the scheduler may have cancelled the job, since a parent has failed. */
	bool may_be_cancelled(const Node &node, const View &view) const;
	bool may_have_ended(Key key, const View &view) const;
	/* Return the parent for which the job must still wait; 0: there is none. */
	Key waits_for(const Node &node, const View &view) const;
	bool may_be_nowhere(const Node &node, const View &view) const;
	bool may_lack_result(Key key, const TxRef &acker) const;
	std::string fault_of(const Node &child, const GraphParent &parent, const ParentRow &row,
						 const View &view) const;
	Sorted sort(const std::vector<GraphRow> &rows);
	std::string describe(Key key, bool with_parents) const;
	void breach(const std::string &what, Key key);
	void breach_of_batch(const std::string &what, Key key);
	void check_node(Key key, const Node &node, const Sorted &rows, const View &view);
	void check_batch(Key key, const Batch &batch, const Found &rows, bool drained);
	bool is_overdue(const Node &node, const Sorted &rows, const View &view) const;
	bool succeeds(const Batch &batch, const View &view) const;
	std::string missing(const Batch &batch, const Found &rows) const;

	Ledger &ledger;
	Key last = 0;
	Key last_batch = 0;
	Key forgotten_batch = 0;
	std::map<Key, Node> nodes; /* the newest has the smallest key */
	std::map<Key, Batch> batches;
	std::vector<Purge> purges;
};

} // namespace torture
