#include "grapher.h"

#include <algorithm>

namespace torture {

namespace {

/*
 * An actor that enqueues graphs of jobs and children of jobs of other calls, works on them, and ends them in
 * other ways.
 */
class Grapher : public Actor
{
public:
	using Actor::Actor;

private:
	struct Element
	{
		Key key;
		JobSpec job;
		GraphNode node;
	};

	void turn() override;
	bool is_crowded();
	const std::string &some_graph_queue();
	OnFailure some_rule();
	void begin_enqueue(Transaction &tx);
	std::vector<GraphParent> some_parents(int most);
	std::string text_of(const Element &element, int64_t batch);
	std::pair<Key, int64_t> create_batch(Transaction &tx);
	void make_graph(Transaction &tx, int most);
	bool enqueue_graph(Transaction &tx, const std::vector<Element> &elements, int64_t batch);
	bool enqueue_child(Transaction &tx, const std::vector<GraphParent> &parents,
					   std::vector<Key> *made);
	void make();
	void join();
	void end(Transaction &tx, const GraphWork &work);
	void work();
	void call();
	void cancel();
	void remove();
	void revive();
	void purge();
};

} // namespace

static constexpr int kMostJobs = 120;

/* Return whether so many jobs wait that more would be of no use. */
bool
Grapher::is_crowded()
{
	Rows rows = session.connection.run("SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING "
									   "(queue_id) WHERE queue IN ($1, $2)",
									   {kPlainGraphs, kKeptGraphs});
	return rows.number(0, 0) > kMostJobs;
}

const std::string &
Grapher::some_graph_queue()
{
	return random.chance(50) ? kPlainGraphs : kKeptGraphs;
}

OnFailure
Grapher::some_rule()
{
	return static_cast<OnFailure>(random.between(0, kOnFailures - 1));
}

/* An enqueue waits for transactions that are ending a parent, also for prepared ones. */
void
Grapher::begin_enqueue(Transaction &tx)
{
	tx.mark();
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	if (random.chance(20))
		(void) tx.run("SELECT count(*) FROM pgq_ext.job_outcome"); /* takes a snapshot */
}

/* Return jobs that are committed. They wait, run, are dead, or have ended. */
std::vector<GraphParent>
Grapher::some_parents(int most)
{
	std::vector<GraphParent> parents;
	auto n = static_cast<size_t>(random.between(1, most));
	for (const Graphed::Known &known : world.graphed.some(random.next() % 1000, n))
		if (std::none_of(parents.begin(), parents.end(),
						 [&](const GraphParent &other) { return other.key == known.key; }))
			parents.push_back({known.key, false});
	return parents;
}

/* ---- graphs ---- */

std::string
Grapher::text_of(const Element &element, int64_t batch)
{
	std::string text = "{\"payload\":" + number(element.key) + ",\"ref\":\"" +
					   graph_ref(element.key) + "\",\"priority\":" + number(element.job.priority) +
					   ",\"delay\":\"" + milliseconds(element.job.delay) + "\"";
	std::string after;
	for (const GraphParent &parent : element.node.parents)
		after +=
			(after.empty() ? "" : ",") + (parent.by_ref ? "\"" + graph_ref(parent.key) + "\""
														: number(world.graphed.id_of(parent.key)));
	if (!after.empty())
		text += ",\"after\":[" + after + "],\"on_parent_failure\":\"" +
				kOnFailureNames[static_cast<int>(element.node.on_failure)] + "\"";
	if (Parameter expires = expires_in(element.job))
		text += ",\"expires_in\":\"" + *expires + "\"";
	if (element.node.batch != 0)
		text += ",\"batch\":" + number(batch);
	return text + "}";
}

/* The payload of a callback is the number of its batch and of its event, below zero. */
std::pair<Key, int64_t>
Grapher::create_batch(Transaction &tx)
{
	Key key = world.graphed.creating_batch(tx.tx());
	auto callback = [&](GraphEvent event) {
		return "{\"queue\": \"" + kGraphCalls +
			   "\", \"payload\": " + number(-(key * kGraphEvents + static_cast<int>(event))) + "}";
	};
	Rows rows = tx.run("SELECT pgq_create_batch(on_success => $1, on_finish => $2)",
					   {callback(GraphEvent::kSuccess), callback(GraphEvent::kFinish)});
	return {key, rows.number(0, 0)};
}

/* Enqueue the jobs under a savepoint. Returns false if a parent does not exist. */
bool
Grapher::enqueue_graph(Transaction &tx, const std::vector<Element> &elements, int64_t batch)
{
	std::string array;
	std::vector<Key> keys;
	for (const Element &element : elements)
	{
		keys.push_back(element.key);
		array += (array.empty() ? "[" : ",") + text_of(element, batch);
	}
	tx.savepoint();
	try
	{
		Rows rows =
			tx.run("SELECT pgq_enqueue_many($1, $2)", {elements.front().node.queue, array + "]"});
		for (int i = 0; i < rows.size(); i++)
			world.graphed.added(keys[static_cast<size_t>(i)], rows.number(i, 0));
		if (random.chance(85))
		{
			tx.release_savepoint();
			world.graphed.graphs++;
			return true;
		}
		tx.roll_back_to_savepoint();
		world.graphed.undone(keys);
	}
	catch (const SqlError &error)
	{
		if (error.state != "42704")
			throw;
		tx.roll_back_to_savepoint();
		world.graphed.refused(keys);
	}
	return false;
}

/* Enqueue a random graph by one call. Some of its jobs are children of older jobs, or are in a batch. */
void
Grapher::make_graph(Transaction &tx, int most)
{
	int n = random.between(2, most);
	std::vector<std::vector<int>> shape = some_shape(random, n);
	std::pair<Key, int64_t> batch;
	if (random.chance(30))
		batch = create_batch(tx);
	GraphNode node{.queue = some_graph_queue()};
	std::vector<Element> elements;
	for (const std::vector<int> &inside : shape)
	{
		Element element{.key = 0, .job = some_job(), .node = node};
		element.job.delay = std::min(element.job.delay, kSecond);
		if (!random.chance(30))
			element.job.expires_in = 0;
		element.node.expires_in = element.job.expires_in;
		element.node.on_failure = some_rule();
		element.node.batch = random.chance(60) ? batch.first : 0;
		if (random.chance(10))
			element.node.parents = some_parents(2);
		for (int parent : inside)
			element.node.parents.push_back({elements[static_cast<size_t>(parent)].key, true});
		element.key = world.graphed.adding(tx.tx(), element.node);
		elements.push_back(element);
	}
	/* A parent may come after its child in the array. */
	for (size_t i = elements.size() - 1; i > 0 && random.chance(95); i--)
		std::swap(elements[i], elements[random.next() % (i + 1)]);
	bool made = enqueue_graph(tx, elements, batch.second);
	if (batch.first != 0)
		(void) tx.run("SELECT pgq_close_batch($1)", {number(batch.second)});
	for (; made && random.chance(25);)
		(void) enqueue_child(tx, {{elements[random.next() % elements.size()].key, false}}, nullptr);
}

/* Enqueue one child under a savepoint. Returns false if a parent does not exist. */
bool
Grapher::enqueue_child(Transaction &tx, const std::vector<GraphParent> &parents,
					   std::vector<Key> *made)
{
	JobSpec job = some_job();
	job.delay = std::min(job.delay, kSecond);
	GraphNode node{.queue = some_graph_queue(), .parents = parents, .on_failure = some_rule()};
	node.expires_in = job.expires_in = random.chance(30) ? job.expires_in : 0;
	std::string ids;
	for (const GraphParent &parent : parents)
		ids += (ids.empty() ? "{" : ",") + number(world.graphed.id_of(parent.key));
	if (random.chance(5))
		ids += "," + number(world.graphed.id_of(parents.front().key));
	Key key = world.graphed.adding(tx.tx(), node);
	tx.savepoint();
	try
	{
		Rows rows = tx.run(
			"SELECT pgq_enqueue($1, $2, $3, delay => $4, expires_in => $5, after => $6, "
			"on_parent_failure => $7)",
			{node.queue, number(key), number(job.priority), milliseconds(job.delay),
			 expires_in(job), ids + "}", kOnFailureNames[static_cast<int>(node.on_failure)]});
		world.graphed.added(key, rows.number(0, 0));
		if (random.chance(95))
		{
			tx.release_savepoint();
			if (made != nullptr)
				made->push_back(key);
			return true;
		}
		tx.roll_back_to_savepoint();
		world.graphed.undone({key});
	}
	catch (const SqlError &error)
	{
		if (error.state != "42704")
			throw;
		tx.roll_back_to_savepoint();
		world.graphed.refused({key});
	}
	return false;
}

void
Grapher::make()
{
	if (is_crowded())
		return;
	Transaction tx(session, random.chance(10) ? "REPEATABLE READ" : "READ COMMITTED");
	begin_enqueue(tx);
	make_graph(tx, random.chance(7) ? 50 : 7);
	finish(tx);
}

/* Enqueue children of jobs of other calls. Some have children of the same transaction. */
void
Grapher::join()
{
	if (is_crowded())
		return;
	Transaction tx(session, random.chance(20) ? "REPEATABLE READ" : "READ COMMITTED");
	begin_enqueue(tx);
	for (int i = random.between(1, 3); i > 0; i--)
	{
		std::vector<GraphParent> parents = some_parents(4);
		std::vector<Key> made;
		while (!parents.empty() && enqueue_child(tx, parents, &made) && random.chance(30))
			parents = {{made.back(), false}};
	}
	nap((random.chance(30) ? random.between(0, 300) : 0) * kMillisecond);
	finish(tx);
}

/* ---- working ---- */

/* End a job, or leave it. */
void
Grapher::end(Transaction &tx, const GraphWork &work)
{
	std::vector<Parameter> lease = {number(work.job_id), number(work.lease)};
	if (random.chance(60))
		ask_for_parents(session, tx, work);
	int n = random.between(1, 100);
	if (n <= 4)
		return;
	if (n <= 10)
		(void) tx.run("SELECT pgq_release($1, $2, '20 ms')", lease);
	else if (n <= 18)
		(void) tx.run("SELECT pgq_fail($1, $2, 'again', retry_in => '20 ms')", lease);
	else if (n <= 32)
	{
		if (tx.run("SELECT pgq_fail($1, $2, '" + kGraphError + "', retry => false)", lease)
				.text(0, 0) == "dead")
			world.graphed.ended(tx.tx(), work.key, NodeEnd::kDeath);
	}
	else
	{
		std::vector<GraphParent> self = {{work.key, false}};
		if (n <= 38)
			(void) enqueue_child(tx, self, nullptr);
		if (n <= 42)
		{
			tx.savepoint();
			(void) tx.run("SELECT pgq_ack($1, $2)", lease);
			tx.roll_back_to_savepoint();
		}
		ack_graph_job(session, tx, work, random.chance(70));
		if (n > 95)
			(void) enqueue_child(tx, self, nullptr);
	}
}

void
Grapher::work()
{
	std::optional<Transaction> tx(std::in_place, session);
	std::vector<GraphWork> all =
		claim_graph_jobs(session, *tx, some_graph_queue(), random.between(1, 5),
						 random.between(1000, 3000) * kMillisecond);
	if (random.chance(60))
	{
		tx->commit();
		nap((random.chance(20) ? random.between(0, 3000) : random.between(0, 20)) * kMillisecond);
		tx.emplace(session);
		tx->mark();
	}
	for (const GraphWork &work : all)
		end(*tx, work);
	nap((random.chance(10) ? random.between(0, 300) : 0) * kMillisecond);
	finish(*tx);
}

void
Grapher::call()
{
	Transaction tx(session);
	(void) do_graph_callbacks(session, tx, random.between(1, 5));
	finish(tx);
}

/* ---- ends of other kinds ---- */

void
Grapher::cancel()
{
	Transaction tx(session);
	tx.mark();
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	for (const Graphed::Known &node : world.graphed.some_left(random.next() % 1000, 3))
		if (!tx.run("SELECT pgq_cancel($1)", {number(node.id)}).is_null(0, 0))
			world.graphed.ended(tx.tx(), node.key, NodeEnd::kCancel);
	finish(tx);
}

/* Delete jobs by SQL, or dead letters. */
void
Grapher::remove()
{
	by_hand = true;
	std::string ids;
	for (const Graphed::Known &node : world.graphed.some_left(random.next() % 1000, 3))
		ids += (ids.empty() ? "" : ",") + number(node.id);
	Transaction tx(session);
	tx.mark();
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	std::string table = random.chance(60) ? "pgq_ext.job" : "pgq_ext.dead_job";
	Rows rows = tx.run("DELETE FROM " + table + " WHERE job_id = ANY($1) RETURNING payload",
					   {"{" + ids + "}"});
	for (int i = 0; i < rows.size(); i++)
		world.graphed.ended(tx.tx(), rows.number(i, 0), NodeEnd::kDelete);
	finish(tx);
}

/* Bring dead letters back. pgq_retry also changes jobs that wait. */
void
Grapher::revive()
{
	Transaction tx(session);
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	if (random.chance(50))
		(void) tx.run("SELECT pgq_redrive($1, $2)",
					  {some_graph_queue(), number(random.between(1, 5))});
	else
		for (const Graphed::Known &node : world.graphed.some_left(random.next() % 1000, 3))
			(void) tx.run("SELECT pgq_retry($1)", {number(node.id)});
	finish(tx);
}

void
Grapher::purge()
{
	Transaction tx(session);
	const std::string &queue = some_graph_queue();
	tx.mark();
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	world.graphed.purging(tx.tx(), queue);
	(void) tx.run("SELECT pgq_purge_queue($1)", {queue});
	/* A transaction that has purged a queue cannot be prepared. */
	if (random.chance(15))
		tx.roll_back();
	else
		tx.commit();
}

void
Grapher::turn()
{
	if (!world.graphs)
	{
		nap(100 * kMillisecond);
		return;
	}
	nap(random.between(1, 60) * kMillisecond);
	int n = random.between(1, 1000);
	if (n <= 160)
		make();
	else if (n <= 340)
		join();
	else if (n <= 820)
		work();
	else if (n <= 890)
		call();
	else if (n <= 915)
		cancel();
	else if (n <= 935)
		remove();
	else if (n <= 997)
		revive();
	else
		purge();
}

std::unique_ptr<Actor>
make_grapher(World &world, int number)
{
	return std::make_unique<Grapher>(world, "grapher " + std::to_string(number));
}

} // namespace torture
