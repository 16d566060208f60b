#include "actor.h"

#include <algorithm>

namespace torture {

namespace {

/*
 * An actor that changes jobs by SQL and by the functions for administrators, and makes and drops
 * queues.
 */
class Administrator : public Actor
{
public:
	using Actor::Actor;

private:
	int last_queue = 0;
	/* The segments of jobs at the last look, and which of these jobs were due. */
	struct Seen
	{
		int64_t segment;
		bool due;
	};
	std::map<int64_t, Seen> seen;
	Epoch seen_in;

	void turn() override;
	std::string some_ids(std::vector<Key> *keys);
	void change_rows();
	void lock_rows();
	void delete_rows();
	void change_jobs();
	/* Cancel or finish jobs by their ids. */
	void cancel_jobs();
	void lock_tables();
	void fill();
	void pause();
	void revive();
	/* Revive dead letters, and return how many were revived. */
	size_t revive_some(Transaction &tx);
	size_t revive_oldest(Transaction &tx);
	void change_limit();
	void change_rules();
	void purge();
	void look_at_results();
	void look_for_moves();
	void come_and_go();
	void create_temporary();
	void drop_temporary(const std::string &queue);
};

} // namespace

/*
 * Return an array of job ids in ascending order, and their keys. Jobs of the slow queue are left
 * out: the ledger knows less about jobs that were touched, and the engine files them again. Jobs of
 * queues with many groups are mostly left out.
 */
std::string
Administrator::some_ids(std::vector<Key> *keys)
{
	std::string ids;
	size_t n = static_cast<size_t>(random.between(1, 6));
	std::set<std::string> spared = {kSlowQueue};
	if (random.chance(90))
	{
		spared.insert(kTurnsQueue);
		spared.insert(kCrowdedQueues.begin(), kCrowdedQueues.end());
	}
	for (const auto &[key, id] : world.ledger.some_live(random.next() % 100000, n, spared))
	{
		ids += (ids.empty() ? "{" : ",") + std::to_string(id);
		keys->push_back(key);
	}
	return ids.empty() ? "{}" : ids + "}";
}

void
Administrator::change_rows()
{
	by_hand = true;
	std::vector<Key> keys;
	std::string ids = some_ids(&keys);
	world.ledger.touched(keys);
	Transaction tx(session);
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	(void) tx.run(random.chance(50)
					  ? "UPDATE pgq_ext.job SET priority = priority + 1 WHERE job_id = ANY($1)"
					  : "UPDATE pgq_ext.job SET run_at = run_at + '200 ms' WHERE job_id = ANY($1)",
				  {ids});
	nap(random.between(0, 100) * kMillisecond);
	if (random.chance(30))
		tx.roll_back();
	else
		tx.commit();
}

void
Administrator::lock_rows()
{
	by_hand = true;
	std::vector<Key> keys;
	std::string ids = some_ids(&keys);
	world.ledger.touched(keys);
	Transaction tx(session);
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	(void) tx.run("SELECT FROM pgq_ext.job WHERE job_id = ANY($1) ORDER BY job_id FOR UPDATE",
				  {ids});
	nap(random.between(0, 300) * kMillisecond);
	tx.commit();
}

void
Administrator::delete_rows()
{
	by_hand = true;
	std::vector<Key> keys;
	std::string ids = some_ids(&keys);
	Transaction tx(session);
	tx.mark();
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	/* Tell the ledger before the statement: from then on a worker's call may be refused. */
	world.ledger.touched(keys);
	world.ledger.deleted(tx.tx(), keys);
	Rows rows = tx.run("DELETE FROM pgq_ext.job WHERE job_id = ANY($1) AND NOT "
					   "pgq_ext.is_leased(job_id) RETURNING payload",
					   {ids});
	std::set<Key> gone;
	for (int i = 0; i < rows.size(); i++)
		gone.insert(rows.number(i, 0));
	world.ledger.deleted_only(tx.tx(), gone);
	if (random.chance(30))
		tx.roll_back();
	else
		tx.commit();
}

/*
 * Change jobs by the functions for it. Dead letters are left alone: for the ledger they have ended.
 */
void
Administrator::change_jobs()
{
	by_hand = true;
	std::vector<Key> keys;
	std::string ids = some_ids(&keys);
	world.ledger.touched(keys);
	Transaction tx(session);
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	(void) tx.run(random.chance(50)
					  ? "SELECT pgq_update(id, priority => 1) FROM unnest($1::bigint[]) id"
					  : "SELECT pgq_retry(id, '200 ms') FROM unnest($1::bigint[]) id",
				  {ids});
	/*
	 * Roll back if a job has died in between and was revived by this call: for the ledger it is
	 * dead.
	 */
	Rows revived = tx.run("SELECT FROM pgq_ext.job WHERE job_id = ANY($1::bigint[]) "
						  "AND attempts = 0 AND last_error IS NOT NULL",
						  {ids});
	if (revived.size() > 0)
	{
		tx.roll_back();
		return;
	}
	nap(random.between(0, 100) * kMillisecond);
	if (random.chance(30))
		tx.roll_back();
	else
		tx.commit();
}

void
Administrator::cancel_jobs()
{
	by_hand = true;
	std::vector<Key> keys;
	std::string ids = some_ids(&keys);
	Transaction tx(session);
	tx.mark();
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	/* Tell the ledger before the statement: from then on a worker's call may be refused. */
	world.ledger.touched(keys);
	world.ledger.revoked(keys);
	world.ledger.deleted(tx.tx(), keys);
	static constexpr const char *kCancel = "SELECT j.payload, pgq_cancel(id) "
										   "FROM unnest($1::bigint[]) id "
										   "LEFT JOIN pgq_ext.job j ON j.job_id = id";
	static constexpr const char *kFinish =
		"SELECT j.payload, CASE WHEN f IS NOT NULL THEN 'finished' END "
		"FROM unnest($1::bigint[]) id LEFT JOIN pgq_ext.job j ON j.job_id = id "
		"LEFT JOIN pgq_finish($1::bigint[]) f ON f = id";
	bool finish = random.chance(50);
	if (finish)
		world.ledger.finishing(keys);
	Rows rows = tx.run(finish ? kFinish : kCancel, {ids});
	std::set<Key> gone;
	bool died = false;
	for (int i = 0; i < rows.size(); i++)
	{
		if (!rows.text(i, 0).empty() && !rows.text(i, 1).empty())
			gone.insert(rows.number(i, 0));
		died |= rows.text(i, 1) == "dead";
	}
	world.ledger.deleted_only(tx.tx(), gone);
	/* Roll back if a job has died in between: it must remain among the dead letters. */
	if (died)
	{
		tx.roll_back();
		return;
	}
	nap(random.between(0, 100) * kMillisecond);
	if (random.chance(30))
		tx.roll_back();
	else
		tx.commit();
}

/* Check pgq_result: a job that it reports as acknowledged must have been acknowledged. */
void
Administrator::look_at_results()
{
	by_hand = true;
	std::vector<Key> keys;
	std::string ids = some_ids(&keys);
	Rows rows = session.connection.run("SELECT (SELECT state FROM pgq_result(id, '100 ms')) "
									   "FROM unnest($1::bigint[]) WITH ORDINALITY u(id, n) "
									   "ORDER BY n",
									   {ids});
	for (int i = 0; i < rows.size(); i++)
		if (!rows.is_null(i, 0) && rows.text(i, 0) == "acked")
			world.ledger.seen_acked(keys[static_cast<size_t>(i)]);
}

/* Lock the table as DDL does: claims stop in the middle, and some raise lock_timeout. */
void
Administrator::lock_tables()
{
	Transaction tx(session);
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	(void) tx.run("LOCK TABLE pgq_ext.job IN ACCESS EXCLUSIVE MODE");
	nap(random.between(50, 400) * kMillisecond);
	tx.commit();
}

/* Enqueue a few jobs that wait until the next purge. */
void
Administrator::fill()
{
	Transaction tx(session);
	for (int i = random.between(1, 3); i > 0; i--)
		tx.enqueue(kPurgedQueue, {.priority = random.between(-2, 2)});
	tx.commit();
}

static std::set<Key>
keys_in(const Rows &rows, int column)
{
	std::set<Key> keys;
	for (int i = 0; i < rows.size(); i++)
		keys.insert(rows.number(i, column));
	return keys;
}

/* Revive some dead letters, except those with unique keys: another job may have the key by now. */
size_t
Administrator::revive_some(Transaction &tx)
{
	Rows dead = tx.run("SELECT job_id, payload FROM pgq_ext.dead_job JOIN pgq_ext.queue USING "
					   "(queue_id) WHERE queue = ANY($1) AND queue <> $2 ORDER BY random() LIMIT 6",
					   {array_of(kQueues), kKeyedQueue});
	std::set<Key> chosen = world.ledger.reviving(tx.tx(), keys_in(dead, 1));
	std::set<Key> revived;
	for (int i = 0; i < dead.size(); i++)
		if (chosen.contains(dead.number(i, 1)) &&
			tx.run("SELECT pgq_retry($1)", {dead.text(i, 0)}).text(0, 0) == "t")
			revived.insert(dead.number(i, 1));
	world.ledger.revived_only(tx.tx(), revived);
	return revived.size();
}

size_t
Administrator::revive_oldest(Transaction &tx)
{
	static const std::string dead_letters = "SELECT payload FROM pgq_ext.dead_job JOIN "
											"pgq_ext.queue USING (queue_id) WHERE queue = $1";
	std::string queue = random.pick(std::vector<std::string>{"plain", "short", kFifoQueue});
	std::set<Key> dead = keys_in(tx.run(dead_letters, {queue}), 0);
	if (dead.empty())
		return 0;
	int most = random.between(1, std::min(6, static_cast<int>(dead.size())));
	std::set<Key> chosen = world.ledger.reviving(tx.tx(), dead);
	Rows answer = tx.run("SELECT pgq_redrive($1, $2)", {queue, number(most)});
	std::set<Key> left = keys_in(tx.run(dead_letters, {queue}), 0);
	std::erase_if(dead, [&](Key key) { return left.contains(key); });
	world.ledger.revived_only(tx.tx(), dead);
	if (static_cast<int64_t>(dead.size()) != answer.number(0, 0))
		world.ledger.violation("redriven " + answer.text(0, 0) + " dead letters, but " +
							   std::to_string(dead.size()) + " are gone");
	return dead.size();
}

void
Administrator::revive()
{
	by_hand = true;
	Transaction tx(session);
	tx.mark();
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	size_t revived = random.chance(50) ? revive_some(tx) : revive_oldest(tx);
	int n = random.between(1, 100);
	if (n <= 20)
		tx.roll_back();
	else if (n <= 30 && may_prepare())
		tx.prepare();
	else
	{
		tx.commit();
		world.counters.revived += revived;
	}
}

void
Administrator::change_limit()
{
	int limit = random.chance(10) ? 0 : random.between(1, 5);
	Transaction tx(session);
	tx.mark();
	world.ledger.limiting(tx.tx(), limit);
	(void) tx.run("SELECT pgq_alter_queue($1, concurrency => $2)", {kLimitedQueue, number(limit)});
	if (random.chance(20))
		tx.roll_back();
	else
		tx.commit();
}

/* Return rules for groups, of those combinations that the server accepts. */
static GroupRules
some_rules(Random &random)
{
	GroupRules rules;
	rules.fifo = random.chance(35);
	rules.fair = random.chance(45);
	if (random.chance(60))
		rules.concurrency = rules.fifo ? 1 : random.between(1, 3);
	if (!rules.fair && random.chance(40))
		rules.rate = random.between(2, 5);
	return rules;
}

void
Administrator::change_rules()
{
	GroupRules rules = some_rules(random);
	Transaction tx(session);
	tx.mark();
	world.ledger.ruling(tx.tx(), rules);
	(void) tx.run("SELECT pgq_alter_queue($1, group_concurrency => $2, group_rate_limit => $3, "
				  "fifo => $4, fair => $5)",
				  {kRuledQueue, number(rules.concurrency), number(rules.rate),
				   rules.fifo ? "true" : "false", rules.fair ? "true" : "false"});
	if (random.chance(20))
	{
		tx.roll_back();
		return;
	}
	tx.commit();
	world.counters.rule_changes++;
}

/* Pause a queue and resume it. No other actor uses that queue. */
void
Administrator::pause()
{
	Transaction tx(session);
	(void) tx.run("SELECT pgq_pause_queue($1)", {kPurgedQueue});
	if (random.chance(30))
		tx.roll_back();
	else
	{
		tx.commit();
		if (session.connection.run("SELECT FROM pgq_claim($1)", {kPurgedQueue}).size() > 0)
			world.ledger.violation("a paused queue hands out a job");
	}
	(void) session.connection.run("SELECT pgq_resume_queue($1)", {kPurgedQueue});
}

/* Purge a queue. No other actor uses it, but lost leases of this actor may still be in it. */
void
Administrator::purge()
{
	std::vector<Held> held;
	/* An earlier pause may have been interrupted. */
	(void) session.connection.run("SELECT pgq_resume_queue($1)", {kPurgedQueue});
	if (random.chance(50))
		held = session.claim({.queues = {kPurgedQueue}, .max_jobs = random.between(1, 5)});
	Transaction tx(session);
	tx.mark();
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	Rows purged = tx.run("SELECT pgq_purge_queue($1)", {kPurgedQueue});
	Rows left = tx.run("SELECT j.payload FROM pgq_ext.job j JOIN pgq_ext.queue q USING (queue_id) "
					   "WHERE q.queue = $1",
					   {kPurgedQueue});
	Rows dead = tx.run("SELECT d.payload FROM pgq_ext.dead_job d JOIN pgq_ext.queue q USING "
					   "(queue_id) WHERE q.queue = $1",
					   {kPurgedQueue});
	std::set<Key> gone = world.ledger.live_in(kPurgedQueue);
	for (int i = 0; i < left.size(); i++)
		gone.erase(left.number(i, 0));
	for (int i = 0; i < dead.size(); i++)
		gone.erase(dead.number(i, 0));
	if (static_cast<int64_t>(gone.size()) != purged.number(0, 0))
		world.ledger.violation("purged " + purged.text(0, 0) + " jobs, but " +
							   std::to_string(gone.size()) + " are gone");
	world.ledger.purged(tx.tx(), {gone.begin(), gone.end()});
	if (random.chance(30))
		tx.roll_back();
	else
		tx.commit();
	for (const Held &h : held)
		session.ack(h);
}

void
Administrator::look_for_moves()
{
	Rows rows = session.connection.run(
		"SELECT job_id, segment, run_at <= clock_timestamp() FROM pgq_ext.job");
	std::map<int64_t, Seen> found;
	for (int i = 0; i < rows.size(); i++)
		found[rows.number(i, 0)] = {rows.number(i, 1), rows.text(i, 2) == "t"};
	if (seen_in == session.connection.epoch())
		for (const auto &[id, before] : seen)
		{
			auto after = found.find(id);
			bool moved = after != found.end() && after->second.segment != before.segment;
			world.counters.seen_moved += moved;
			world.counters.seen_moved_due += moved && before.due;
		}
	seen = std::move(found);
	seen_in = session.connection.epoch();
}

void
Administrator::create_temporary()
{
	std::string queue = "temporary" + std::to_string(++last_queue);
	world.ledger.temporary(queue);
	world.set_temporary_queue(queue);
	Transaction tx(session);
	tx.mark();
	(void) tx.run("SELECT pgq_create_queue($1, lease_time => '1 s', max_attempts => $2)",
				  {queue, max_attempts_in(queue)});
	if (random.chance(20))
		tx.roll_back();
	else
		tx.commit();
}

/* Drop the temporary queue. The actors may use it until it is certainly gone. */
void
Administrator::drop_temporary(const std::string &queue)
{
	Transaction tx(session);
	tx.mark();
	(void) tx.run("SET LOCAL lock_timeout = '1 s'");
	Rows dropped = tx.run("SELECT pgq_drop_queue($1, true, true)", {queue});
	world.ledger.dropped_queue(tx.tx(), queue);
	if (random.chance(20))
	{
		tx.roll_back();
		return;
	}
	tx.commit();
	world.set_temporary_queue("");
}

void
Administrator::come_and_go()
{
	std::string queue = world.current_temporary_queue();
	if (queue.empty())
		create_temporary();
	else if (random.chance(50))
		drop_temporary(queue);
}

void
Administrator::turn()
{
	nap(random.between(1, 100) * kMillisecond);
	if (random.chance(20))
		look_for_moves();
	if (random.chance(8))
		change_rules();
	int n = random.between(1, 100);
	if (world.moving && n <= 50)
		purge();
	else if (n <= 25)
		change_rows();
	else if (n <= 45)
		lock_rows();
	else if (n <= 50)
		delete_rows();
	else if (n <= 55)
		change_jobs();
	else if (n <= 60)
		cancel_jobs();
	else if (n <= 65)
		lock_tables();
	else if (n <= 70)
		(void) session.connection.run("VACUUM pgq_ext.job");
	else if (n <= 75)
		look_at_results();
	else if (n <= 82)
		fill();
	else if (n <= 84)
		purge();
	else if (n <= 86)
		pause();
	else if (n <= 91)
		revive();
	else if (n <= 94)
		change_limit();
	else
		come_and_go();
}

std::unique_ptr<Actor>
make_administrator(World &world)
{
	return std::make_unique<Administrator>(world, "administrator");
}

} // namespace torture
