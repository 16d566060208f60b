/*
 * Graphs: what happens. The rules are in graph_rules.cpp.
 */
#include "graphed.h"

#include <algorithm>

namespace torture {

std::string
graph_ref(Key key)
{
	return "ref " + std::to_string(-key);
}

std::string
graph_result(Key key)
{
	return "{\"n\": " + std::to_string(key) + "}";
}

/* ---- what happens ---- */

Key
Graphed::adding(const TxRef &tx, const GraphNode &node)
{
	std::lock_guard lock(ledger.mutex);
	Node &added = nodes[--last];
	static_cast<GraphNode &>(added) = node;
	added.creator = tx;
	added.sent = now();
	if (node.batch != 0)
		batches.at(node.batch).members.push_back(last);
	return last;
}

void
Graphed::added(Key key, int64_t job_id)
{
	std::lock_guard lock(ledger.mutex);
	View view{.by = now(), .seen = false};
	Node &node = nodes.at(key);
	node.id = job_id;
	auto is_outside = [](const GraphParent &parent) { return !parent.by_ref; };
	auto is_late = [&](const GraphParent &parent) {
		const Node &other = nodes.at(parent.key);
		return is_outside(parent) &&
			   (has_end(other, NodeEnd::kAck, view) || has_end(other, NodeEnd::kCancel, view));
	};
	joined += std::any_of(node.parents.begin(), node.parents.end(), is_outside);
	late += std::any_of(node.parents.begin(), node.parents.end(), is_late);
}

void
Graphed::refused(const std::vector<Key> &keys)
{
	std::lock_guard lock(ledger.mutex);
	refusals++;
	View view{.by = now(), .seen = true};
	bool right = false;
	for (Key key : keys)
	{
		Node &node = nodes.at(key);
		node.undone = true;
		right |=
			std::any_of(node.parents.begin(), node.parents.end(), [&](const GraphParent &parent) {
				return !parent.by_ref && may_be_nowhere(nodes.at(parent.key), view);
			});
	}
	if (!right)
		breach("was refused, but its parents exist or are kept", keys.front());
}

void
Graphed::undone(const std::vector<Key> &keys)
{
	std::lock_guard lock(ledger.mutex);
	for (Key key : keys)
		nodes.at(key).undone = true;
}

void
Graphed::ended(const TxRef &tx, Key key, NodeEnd how, std::optional<std::string> result)
{
	std::lock_guard lock(ledger.mutex);
	if (auto node = nodes.find(key); node != nodes.end())
		node->second.ends.push_back({tx, how, std::move(result)});
	else
		ledger.breach("node " + std::to_string(key) + " has ended long ago, and is there again",
					  nullptr);
}

void
Graphed::purging(const TxRef &tx, const std::string &queue)
{
	std::lock_guard lock(ledger.mutex);
	purges.push_back({tx, queue});
}

void
Graphed::handed_out(Key key, Time received)
{
	std::lock_guard lock(ledger.mutex);
	auto found = nodes.find(key);
	if (found == nodes.end())
	{
		ledger.breach("node " + std::to_string(key) + " has ended long ago, and is handed out",
					  nullptr);
		return;
	}
	Node &node = found->second;
	View view{.by = received, .seen = true};
	if (node.undone || !view.counts(node.creator))
		breach("was handed out, but not enqueued", key);
	else if (Key parent = waits_for(node, view); parent != 0)
		breach("was handed out, but must wait for " + std::to_string(parent), key);
	if (!node.parents.empty() && !node.was_handed_out)
		children[static_cast<int>(node.on_failure)]++;
	node.was_handed_out = true;
}

void
Graphed::told(const TxRef &tx, Key key, const std::vector<ParentRow> &rows, Time received)
{
	std::lock_guard lock(ledger.mutex);
	auto found = nodes.find(key);
	if (found == nodes.end())
		return; /* told of before */
	const Node &node = found->second;
	View view{.by = received, .seen = true, .own = tx};
	if (rows.size() != node.parents.size())
		breach("has " + std::to_string(rows.size()) + " rows of pgq_parents", key);
	for (const ParentRow &row : rows)
	{
		auto parent =
			std::find_if(node.parents.begin(), node.parents.end(), [&](const GraphParent &other) {
				return nodes.at(other.key).id == row.job_id;
			});
		std::string fault = parent == node.parents.end() ? "it has no such parent"
														 : fault_of(node, *parent, row, view);
		if (fault != "")
			breach("was told that job " + std::to_string(row.job_id) + " is " + row.state +
					   ", result " + row.result.value_or("NULL") + ", error " +
					   row.error.value_or("NULL") + ", ref " + row.ref.value_or("NULL") + ": " +
					   fault,
				   key);
		parents_told++;
		failed_told += row.state != "acked";
	}
}

/* ---- batches ---- */

Key
Graphed::creating_batch(const TxRef &tx)
{
	std::lock_guard lock(ledger.mutex);
	batches[++last_batch] = {.creator = tx, .members = {}, .calls = {}};
	return last_batch;
}

void
Graphed::calling(const TxRef &tx, Key key, GraphEvent event, Time received)
{
	std::lock_guard lock(ledger.mutex);
	if (auto batch = batches.find(key); batch != batches.end())
		batch->second.calls.push_back({tx, event, received});
	else
		ledger.breach("a callback of batch " + std::to_string(key) +
						  " of a graph, which has ended long ago",
					  nullptr);
}

/* ---- which jobs there are ---- */

std::vector<Graphed::Known>
Graphed::some(size_t place, size_t n)
{
	static constexpr size_t kRecent = 60;
	std::lock_guard lock(ledger.mutex);
	std::vector<Known> all;
	for (auto it = nodes.begin(); it != nodes.end() && all.size() < kRecent; ++it)
		if (exists(it->second))
			all.push_back({it->first, it->second.id});
	std::vector<Known> found;
	for (size_t i = 0; i < std::min(n, all.size()); i++)
		found.push_back(all[(place + i * (1 + place % 7)) % all.size()]);
	return found;
}

std::vector<Graphed::Known>
Graphed::some_left(size_t place, size_t n)
{
	std::lock_guard lock(ledger.mutex);
	View view{.by = now(), .seen = false};
	std::vector<Known> all;
	for (const auto &[key, node] : nodes)
		if (exists(node) && !has_end(node, NodeEnd::kAck, view) &&
			!has_end(node, NodeEnd::kCancel, view) && !has_end(node, NodeEnd::kDelete, view))
			all.push_back({key, node.id});
	std::vector<Known> found;
	for (size_t i = 0; i < std::min(n, all.size()); i++)
		found.push_back(all[(place + i) % all.size()]);
	return found;
}

bool
Graphed::is_child(Key key)
{
	std::lock_guard lock(ledger.mutex);
	auto node = nodes.find(key);
	return node != nodes.end() && !node->second.parents.empty();
}

int64_t
Graphed::id_of(Key key)
{
	std::lock_guard lock(ledger.mutex);
	return nodes.at(key).id;
}

Key
Graphed::forget()
{
	std::lock_guard lock(ledger.mutex);
	View view{.by = now(), .seen = false};
	for (const auto &[key, node] : nodes)
		cancelled += exists(node) && !has_end(node, NodeEnd::kAck, view) &&
					 !has_end(node, NodeEnd::kCancel, view) &&
					 !has_end(node, NodeEnd::kDelete, view) && !may_be_expired(node, view.by) &&
					 !may_be_purged(node, view);
	for (const auto &[key, batch] : batches)
		for (const Call &call : batch.calls)
			callbacks[static_cast<int>(call.event)] += view.counts(call.tx);
	nodes.clear();
	batches.clear();
	purges.clear();
	forgotten_batch = last_batch;
	return last_batch;
}

} // namespace torture
