/*
 * The rules of graphs.
 */
#include "graphed.h"

#include <algorithm>

namespace torture {

/* ---- what may have happened to a job ---- */

template <typename Value>
static Value
in(const std::map<Key, Value> &map, Key key)
{
	auto found = map.find(key);
	return found != map.end() ? found->second : Value{};
}

bool
Graphed::View::counts(const TxRef &tx) const
{
	if (tx == own)
		return true;
	if (tx->ending_sent == 0 || tx->ending_sent > by)
		return false;
	return tx->state == TxState::kCommitted ||
		   (seen && (tx->state == TxState::kEnding || tx->resolved_on != 0));
}

bool
Graphed::exists(const Node &node)
{
	return node.creator->state == TxState::kCommitted && !node.undone;
}

const Graphed::End *
Graphed::find_end(const Node &node, NodeEnd how, const View &view)
{
	auto end = std::find_if(node.ends.begin(), node.ends.end(), [&](const End &other) {
		return other.how == how && view.counts(other.tx);
	});
	return end != node.ends.end() ? &*end : nullptr;
}

bool
Graphed::may_be_expired(const Node &node, Time by)
{
	return node.expires_in != 0 && by >= node.sent + node.expires_in - clock_margin();
}

bool
Graphed::may_be_purged(const Node &node, const View &view) const
{
	return std::any_of(purges.begin(), purges.end(), [&](const Purge &purge) {
		return purge.queue == node.queue && view.counts(purge.tx) &&
			   purge.tx->ending_sent >= node.sent;
	});
}

bool
Graphed::may_be_lost(Key key, const View &view) const
{
	if (auto known = view.gone.find(key); known != view.gone.end())
		return known->second;
	const Node &node = nodes.at(key);
	bool acked = !view.seen && has_end(node, NodeEnd::kAck, view);
	bool there = view.rows != nullptr && in(view.rows->live, key) + in(view.rows->dead, key) > 0;
	bool lost = !acked && !there &&
				(has_end(node, NodeEnd::kCancel, view) || has_end(node, NodeEnd::kDelete, view) ||
				 may_be_expired(node, view.by) || may_be_purged(node, view) ||
				 may_be_cancelled(node, view));
	return view.gone[key] = lost;
}

bool
Graphed::may_have_failed(Key key, const View &view) const
{
	return has_end(nodes.at(key), NodeEnd::kDeath, view) || may_be_lost(key, view);
}

bool
Graphed::may_be_cancelled(const Node &node, const View &view) const
{
	return node.on_failure != OnFailure::kRun &&
		   std::any_of(node.parents.begin(), node.parents.end(), [&](const GraphParent &parent) {
			   return node.on_failure == OnFailure::kHold ? may_be_lost(parent.key, view)
														  : may_have_failed(parent.key, view);
		   });
}

Key
Graphed::waits_for(const Node &node, const View &view) const
{
	for (const GraphParent &parent : node.parents)
		if (!has_end(nodes.at(parent.key), NodeEnd::kAck, view) &&
			(node.on_failure != OnFailure::kRun || !may_have_failed(parent.key, view)))
			return parent.key;
	return 0;
}

/* Return whether an enqueue of a child may be right not to find the job. */
bool
Graphed::may_be_nowhere(const Node &node, const View &view) const
{
	if (node.queue == kKeptGraphs)
		return has_end(node, NodeEnd::kDelete, view) || may_be_purged(node, view) ||
			   (has_end(node, NodeEnd::kCancel, view) && has_end(node, NodeEnd::kDeath, view));
	return has_end(node, NodeEnd::kAck, view) || has_end(node, NodeEnd::kCancel, view) ||
		   has_end(node, NodeEnd::kDelete, view) || may_be_expired(node, view.by) ||
		   may_be_purged(node, view) || may_be_cancelled(node, view);
}

/* ---- pgq_parents ---- */

/*
 * Return whether the result of the job may be lost. A transaction that has acknowledged a job without
 * children, and then enqueues one, does not know the result any more, unless the queue keeps it.
 */
bool
Graphed::may_lack_result(Key key, const TxRef &acker) const
{
	return nodes.at(key).queue == kPlainGraphs &&
		   std::any_of(nodes.begin(), nodes.end(), [&](const auto &entry) {
			   const Node &other = entry.second;
			   return other.creator == acker &&
					  std::any_of(other.parents.begin(), other.parents.end(),
								  [&](const GraphParent &parent) { return parent.key == key; });
		   });
}

/* Return what is wrong with what the child was told of the parent; empty: nothing. */
std::string
Graphed::fault_of(const Node &child, const GraphParent &parent, const ParentRow &row,
				  const View &view) const
{
	const Node &node = nodes.at(parent.key);
	if (row.ref.value_or("") != (parent.by_ref ? graph_ref(parent.key) : ""))
		return "it has another ref";
	if (row.state == "acked")
	{
		bool right = std::any_of(node.ends.begin(), node.ends.end(), [&](const End &end) {
			return end.how == NodeEnd::kAck && view.counts(end.tx) &&
				   (end.result == row.result ||
					(!row.result && may_lack_result(parent.key, end.tx)));
		});
		return right ? "" : "nobody has acknowledged it so";
	}
	if (child.on_failure != OnFailure::kRun)
		return "its child should not run";
	if (row.result)
		return "only an acknowledged job has a result";
	if (row.state == "dead" || row.state == "waiting" || row.state == "leased")
	{
		if (row.state == "dead" && row.error != kGraphError)
			return "it died with another error";
		return has_end(node, NodeEnd::kDeath, view) ? "" : "it has never died";
	}
	bool right = row.state == "cancelled"
					 ? has_end(node, NodeEnd::kCancel, view) || may_be_cancelled(node, view)
				 : row.state == "expired" ? may_be_expired(node, view.by)
				 : row.state == "purged"  ? may_be_purged(node, view)
				 : row.state == "deleted" ? has_end(node, NodeEnd::kDelete, view)
										  : false;
	return right ? "" : "it has not ended so";
}

/* ---- violations ---- */

std::string
Graphed::describe(Key key, bool with_parents) const
{
	static const char *const ends[] = {"acknowledged", "dead", "cancelled", "deleted"};
	static const char *const states[] = {"open", "ending", "prepared", "committed", "aborted"};
	auto name = [&](const TxRef &tx) {
		return " by transaction " + std::to_string(tx->id) + ", " +
			   states[static_cast<int>(tx->state)] + (tx->was_prepared ? ", was prepared" : "") +
			   (tx->resolved_on != 0 ? ", resolved" : "");
	};
	const Node &node = nodes.at(key);
	std::string text = "\n    node " + std::to_string(key) + ", job " + std::to_string(node.id) +
					   " of " + node.queue + ": enqueued" + name(node.creator) +
					   (node.undone ? ", undone" : "") + (node.expires_in != 0 ? ", expires" : "") +
					   (node.was_handed_out ? ", handed out" : "");
	if (!node.parents.empty())
		text += std::string(", on_parent_failure ") +
				kOnFailureNames[static_cast<int>(node.on_failure)] + ", parents";
	for (const GraphParent &parent : node.parents)
		text += " " + std::to_string(parent.key);
	for (const End &end : node.ends)
		text += std::string("; ") + ends[static_cast<int>(end.how)] + name(end.tx);
	if (with_parents)
		for (const GraphParent &parent : node.parents)
			text += describe(parent.key, false);
	return text;
}

void
Graphed::breach(const std::string &what, Key key)
{
	ledger.breach("node " + std::to_string(key) + " " + what + describe(key, true), nullptr);
}

void
Graphed::breach_of_batch(const std::string &what, Key key)
{
	std::string text = "batch " + std::to_string(key) + " of a graph: " + what;
	for (Key member : batches.at(key).members)
		text += describe(member, false);
	ledger.breach(text, nullptr);
}

/* ---- quiet points ---- */

Graphed::Sorted
Graphed::sort(const std::vector<GraphRow> &rows)
{
	Sorted sorted;
	for (const GraphRow &row : rows)
	{
		bool is_node = row.kind != GraphRow::kCallback && row.kind != GraphRow::kEffect;
		int event = static_cast<int>(row.event);
		if (!is_node && row.kind == GraphRow::kEffect && row.key <= forgotten_batch)
			continue;
		if (is_node ? !nodes.contains(row.key) : !batches.contains(row.key))
			ledger.breach((is_node ? "node " : "a callback of batch ") + std::to_string(row.key) +
							  " of a graph has ended long ago, and is there",
						  nullptr);
		else if (row.kind == GraphRow::kCallback)
			sorted.batches[row.key].waiting[event]++;
		else if (row.kind == GraphRow::kEffect)
			sorted.batches[row.key].effects[event]++;
		else if (row.kind == GraphRow::kDead)
			sorted.dead[row.key]++;
		else
		{
			sorted.live[row.key]++;
			sorted.blocked[row.key] += row.kind == GraphRow::kBlocked;
		}
	}
	return sorted;
}

/* Check a job by itself: it is there, or has ended once, and is blocked if it must be. */
void
Graphed::check_node(Key key, const Node &node, const Sorted &rows, const View &view)
{
	int live = in(rows.live, key);
	int dead = in(rows.dead, key);
	auto finally = std::count_if(node.ends.begin(), node.ends.end(), [&](const End &end) {
		return end.how != NodeEnd::kDeath && view.counts(end.tx);
	});
	if (finally > 1)
		breach("has ended twice", key);
	if (live + dead > 1)
		breach("is there twice", key);
	else if (live + dead == 1 && !exists(node))
		breach("is there, but was not enqueued", key);
	else if (live + dead == 1 && finally > 0)
		breach("has ended, and is there", key);
	else if (live + dead == 0 && exists(node) && finally == 0 && !may_be_lost(key, view))
		breach("is lost", key);
	else if (dead == 1 && !has_end(node, NodeEnd::kDeath, view))
		breach("is a dead letter, but nobody has failed it", key);
	else if (live + dead == 1 && in(rows.blocked, key) == 0 && waits_for(node, view) != 0)
		breach("is not blocked, but must wait", key);
}

/* Return whether all members were acknowledged. */
bool
Graphed::succeeds(const Batch &batch, const View &view) const
{
	return std::all_of(batch.members.begin(), batch.members.end(), [&](Key key) {
		return !exists(nodes.at(key)) || has_end(nodes.at(key), NodeEnd::kAck, view);
	});
}

std::string
Graphed::missing(const Batch &batch, const Found &rows) const
{
	View view{.by = now(), .seen = false};
	auto is_missing = [&](GraphEvent event) {
		return rows.waiting[static_cast<int>(event)] + rows.effects[static_cast<int>(event)] == 0;
	};
	if (!view.counts(batch.creator))
		return "";
	if (is_missing(GraphEvent::kFinish))
		return "finish";
	return is_missing(GraphEvent::kSuccess) && succeeds(batch, view) ? "success" : "";
}

void
Graphed::check_batch(Key key, const Batch &batch, const Found &rows, bool drained)
{
	for (GraphEvent event : {GraphEvent::kSuccess, GraphEvent::kFinish})
	{
		std::string name = event == GraphEvent::kSuccess ? "success" : "finish";
		int waiting = rows.waiting[static_cast<int>(event)];
		int n = waiting + rows.effects[static_cast<int>(event)];
		if (n > 1)
			breach_of_batch("the callback " + name + " has come " + std::to_string(n) + " times",
							key);
		if (n > 0 && batch.creator->state != TxState::kCommitted)
			breach_of_batch("has a callback, but was not made", key);
		if (n == 0)
			continue;
		View view{.by = now(), .seen = false};
		for (const Call &call : batch.calls)
			if (call.event == event && call.tx->state == TxState::kCommitted)
				view.by = call.received;
		bool due = event == GraphEvent::kSuccess
					   ? succeeds(batch, view)
					   : std::all_of(batch.members.begin(), batch.members.end(), [&](Key member) {
							 const Node &node = nodes.at(member);
							 /* A dead letter has ended, too. */
							 return !exists(node) || has_end(node, NodeEnd::kAck, view) ||
									may_have_failed(member, view);
						 });
		if (!due)
			breach_of_batch("the callback " + name + " has come, but was not due", key);
		if (drained && waiting > 0)
			breach_of_batch("a callback waits for ever", key);
	}
	if (std::string event = missing(batch, rows); drained && event != "")
		breach_of_batch("the callback " + event + " has not come", key);
}

void
Graphed::audit(const std::vector<GraphRow> &rows, bool drained)
{
	std::lock_guard lock(ledger.mutex);
	Sorted sorted = sort(rows);
	View view{.by = now(), .seen = false, .rows = &sorted};
	for (const auto &[key, node] : nodes)
	{
		check_node(key, node, sorted, view);
		if (drained && (in(sorted.live, key) != 0 || in(sorted.dead, key) != 0))
			breach("is left over", key);
	}
	for (const auto &[key, batch] : batches)
		check_batch(key, batch, in(sorted.batches, key), drained);
}

/* Return whether the blocked job should be ready or cancelled. */
bool
Graphed::is_overdue(const Node &node, const Sorted &rows, const View &view) const
{
	bool waits = false;
	for (const GraphParent &parent : node.parents)
	{
		bool dead = in(rows.dead, parent.key) > 0;
		bool live = in(rows.live, parent.key) > 0;
		bool acked = has_end(nodes.at(parent.key), NodeEnd::kAck, view);
		bool gone = !live && !dead && !acked;
		if (node.on_failure == OnFailure::kCancel ? dead || gone
												  : node.on_failure == OnFailure::kHold && gone)
			return true;
		waits |= live || (dead && node.on_failure == OnFailure::kHold);
	}
	return !waits;
}

std::string
Graphed::overdue(const std::vector<GraphRow> &rows)
{
	std::lock_guard lock(ledger.mutex);
	Sorted sorted = sort(rows);
	View view{.by = now(), .seen = false};
	for (const auto &[key, blocked] : sorted.blocked)
		if (blocked > 0 && is_overdue(nodes.at(key), sorted, view))
			return "node " + std::to_string(key) + describe(key, true);
	return "";
}

std::string
Graphed::missing(const std::vector<GraphRow> &rows)
{
	std::lock_guard lock(ledger.mutex);
	Sorted sorted = sort(rows);
	for (const auto &[key, batch] : batches)
		if (std::string event = missing(batch, in(sorted.batches, key)); event != "")
			return event + " of batch " + std::to_string(key) + " of a graph";
	return "";
}

} // namespace torture
