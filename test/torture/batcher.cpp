#include "batcher.h"

#include <cstdlib>

namespace torture {

namespace {

/*
 * An actor that makes and closes batches, adds and ends members, and does the jobs of callbacks, some of
 * which make the next batch.
 */
class Batcher : public Actor
{
public:
	using Actor::Actor;

private:
	struct Work
	{
		Key key;
		int64_t job_id;
		int64_t lease;
	};

	void turn() override;
	bool is_crowded();
	Batched::Known create(Transaction &tx);
	void add_some(Transaction &tx, const Batched::Known &batch, int most, bool in_hand = false);
	bool add_one(Transaction &tx, const Batched::Known &batch, bool in_hand);
	bool add_many(Transaction &tx, const Batched::Known &batch, int n);
	void make();
	void add();
	void close();
	std::vector<Work> claim(Transaction &tx);
	void end(Transaction &tx, const Work &work);
	void work();
	void call();
	void cancel();
	void remove();
	void redrive();
	void cancel_batch();
	void purge();
};

} // namespace

static constexpr int kMostMembers = 100;

/* ---- what others use ---- */

void
prepare_batches(Session &session)
{
	Connection &connection = session.connection;
	World &world = session.world;
	if (world.batches ||
		connection.run("SELECT FROM pg_proc WHERE proname = 'pgq_create_batch'").size() == 0)
		return;
	/* After an update from the version before, the columns are still missing. */
	(void) connection.run("SELECT pgq_ext.add_batch_columns()");
	(void) connection.run("CREATE TABLE IF NOT EXISTS torture.called (batch bigint NOT NULL, event "
						  "integer NOT NULL)");
	for (const std::string &queue : {kMembersQueue, kCalledQueue})
		(void) connection.run(
			"SELECT pgq_create_queue($1, backoff_base => '50 ms', backoff_max => '1 s', "
			"max_attempts => 10000, if_not_exists => true)",
			{queue});
	world.batches = true;
}

/* The payload of a callback is the number of its batch and of its event, below zero. */
static std::string
callback(Key batch, BatchEvent event)
{
	return "{\"queue\": \"" + kCalledQueue +
		   "\", \"payload\": " + number(-(batch * kBatchEvents + static_cast<int>(event))) + "}";
}

int
do_callbacks(Session &session, Transaction &tx, int most, Time wait)
{
	tx.mark();
	Rows rows = tx.run("SELECT payload, job_id, lease, headers->>'batch', headers->>'event' FROM "
					   "pgq_claim($1, $2, wait => $3, lease_time => '3 s')",
					   {kCalledQueue, number(most), milliseconds(wait)});
	for (int i = 0; i < rows.size(); i++)
	{
		Key n = -rows.number(i, 0);
		Key batch = n / kBatchEvents;
		auto event = static_cast<BatchEvent>(n % kBatchEvents);
		session.world.batched.calling(tx.tx(), batch, rows.number(i, 3), event, rows.text(i, 4));
		(void) tx.run("INSERT INTO torture.called VALUES ($1, $2)",
					  {number(batch), number(n % kBatchEvents)});
		(void) tx.run("SELECT pgq_ack($1, $2)", {rows.text(i, 1), rows.text(i, 2)});
	}
	return rows.size();
}

void
close_batch(Session &session, Transaction &tx, const Batched::Known &batch)
{
	tx.mark();
	session.world.batched.closing(tx.tx(), batch.key);
	(void) tx.run("SELECT pgq_close_batch($1)", {number(batch.id)});
}

/* ---- making ---- */

Batched::Known
Batcher::create(Transaction &tx)
{
	tx.mark();
	Key key = world.batched.creating(tx.tx());
	Rows rows = tx.run("SELECT pgq_create_batch($1, $2, $3, to_jsonb($4::bigint))",
					   {callback(key, BatchEvent::kSuccess), callback(key, BatchEvent::kFailure),
						callback(key, BatchEvent::kFinish), number(key)});
	world.batched.created(key, rows.number(0, 0));
	return {key, rows.number(0, 0)};
}

/* Add a member under a savepoint. Returns false if the batch is closed. */
bool
Batcher::add_one(Transaction &tx, const Batched::Known &batch, bool in_hand)
{
	JobSpec job = some_job();
	job.delay = std::min(job.delay, kSecond);
	Key key = world.batched.adding(tx.tx(), batch.key, job.expires_in);
	tx.savepoint();
	try
	{
		Rows rows =
			tx.run("SELECT pgq_enqueue($1, $2, $3, delay => $4, expires_in => $5, batch => $6)",
				   {kMembersQueue, number(key), number(job.priority), milliseconds(job.delay),
					expires_in(job), number(batch.id)});
		world.batched.added(key, rows.number(0, 0), in_hand);
		tx.release_savepoint();
		return true;
	}
	catch (const SqlError &error)
	{
		if (error.state != "55000")
			throw;
		tx.roll_back_to_savepoint();
		world.batched.refused(tx.tx(), key, in_hand);
		return false;
	}
}

bool
Batcher::add_many(Transaction &tx, const Batched::Known &batch, int n)
{
	std::string array;
	std::vector<Key> keys;
	for (; n > 0; n--)
	{
		keys.push_back(world.batched.adding(tx.tx(), batch.key));
		array += (array.empty() ? "[" : ",") + std::string("{\"payload\":") + number(keys.back()) +
				 ",\"priority\":" + number(random.between(-2, 2)) +
				 ",\"batch\":" + number(batch.id) + "}";
	}
	tx.savepoint();
	try
	{
		Rows rows = tx.run("SELECT pgq_enqueue_many($1, $2)", {kMembersQueue, array + "]"});
		for (int i = 0; i < rows.size(); i++)
			world.batched.added(keys[static_cast<size_t>(i)], rows.number(i, 0));
		if (random.chance(80))
		{
			tx.release_savepoint();
			return true;
		}
		tx.roll_back_to_savepoint();
		world.batched.undone(keys);
		return true;
	}
	catch (const SqlError &error)
	{
		if (error.state != "55000")
			throw;
		tx.roll_back_to_savepoint();
		for (Key key : keys)
			world.batched.refused(tx.tx(), key);
		return false;
	}
}

void
Batcher::add_some(Transaction &tx, const Batched::Known &batch, int most, bool in_hand)
{
	tx.mark();
	if (!in_hand && random.chance(30))
	{
		(void) add_many(tx, batch, random.between(1, most));
		return;
	}
	for (int i = random.between(1, std::min(most, 4)); i > 0; i--)
		if (!add_one(tx, batch, in_hand))
			return;
}

/* Return whether so many members wait that more would be of no use. */
bool
Batcher::is_crowded()
{
	Rows rows = session.connection.run("SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING "
									   "(queue_id) WHERE queue = $1",
									   {kMembersQueue});
	return rows.number(0, 0) > kMostMembers;
}

/* Make a batch, perhaps add members, and perhaps close it, all in one transaction. */
void
Batcher::make()
{
	if (is_crowded())
		return;
	Transaction tx(session, random.chance(10) ? "REPEATABLE READ" : "READ COMMITTED");
	Batched::Known batch = create(tx);
	if (random.chance(70))
		add_some(tx, batch, random.chance(10) ? 40 : 6);
	if (random.chance(30))
		close_batch(session, tx, batch);
	finish(tx);
}

void
Batcher::add()
{
	Batched::Known batch;
	if (is_crowded() || !world.batched.some_batch(random.next() % 1000, &batch))
		return;
	Transaction tx(session, random.chance(20) ? "REPEATABLE READ" : "READ COMMITTED");
	if (random.chance(30))
		(void) tx.run("SELECT count(*) FROM pgq_ext.job_batch"); /* takes a snapshot */
	add_some(tx, batch, 6);
	nap((random.chance(30) ? random.between(0, 500) : 0) * kMillisecond);
	finish(tx);
}

void
Batcher::close()
{
	Batched::Known batch;
	if (!world.batched.some_batch(random.next() % 1000, &batch))
		return;
	Transaction tx(session);
	close_batch(session, tx, batch);
	nap((random.chance(30) ? random.between(0, 300) : 0) * kMillisecond);
	finish(tx);
}

/* ---- working ---- */

std::vector<Batcher::Work>
Batcher::claim(Transaction &tx)
{
	tx.mark();
	Rows rows = tx.run("SELECT payload, job_id, lease FROM pgq_claim($1, $2, lease_time => $3)",
					   {kMembersQueue, number(random.between(1, 5)),
						milliseconds(random.between(1000, 3000) * kMillisecond)});
	std::vector<Work> all;
	for (int i = 0; i < rows.size(); i++)
		all.push_back({rows.number(i, 0), rows.number(i, 1), rows.number(i, 2)});
	return all;
}

/* End a member, or leave it. */
void
Batcher::end(Transaction &tx, const Work &work)
{
	std::vector<Parameter> lease = {number(work.job_id), number(work.lease)};
	int n = random.between(1, 100);
	if (n <= 5)
		return;
	if (n <= 12)
		(void) tx.run("SELECT pgq_release($1, $2, '20 ms')", lease);
	else if (n <= 22)
		(void) tx.run("SELECT pgq_fail($1, $2, 'again', retry_in => '20 ms')", lease);
	else if (n <= 30)
	{
		if (tx.run("SELECT pgq_fail($1, $2, 'never', retry => false)", lease).text(0, 0) == "dead")
			world.batched.ended(tx.tx(), work.key, MemberEnd::kDeath);
	}
	else
	{
		/* The batch may be closed, but it has a member that lives: this one. */
		if (Batched::Known batch = world.batched.batch_of(work.key); n <= 40 && batch.key != 0)
		{
			(void) tx.run("SELECT pgq_assert_lease($1, $2)", lease);
			add_some(tx, batch, 2, true);
		}
		if (n <= 45)
		{
			tx.savepoint();
			(void) tx.run("SELECT pgq_ack($1, $2)", lease);
			tx.roll_back_to_savepoint();
		}
		(void) tx.run("SELECT pgq_ack($1, $2)", lease);
		world.batched.ended(tx.tx(), work.key, MemberEnd::kAck);
	}
}

void
Batcher::work()
{
	std::optional<Transaction> tx(std::in_place, session);
	std::vector<Work> all = claim(*tx);
	if (random.chance(60))
	{
		tx->commit();
		nap((random.chance(20) ? random.between(0, 3000) : random.between(0, 20)) * kMillisecond);
		tx.emplace(session);
		tx->mark();
	}
	for (const Work &work : all)
		end(*tx, work);
	nap((random.chance(10) ? random.between(0, 300) : 0) * kMillisecond);
	finish(*tx);
}

/* Do callbacks. The next batch is made by the transaction that acknowledges the callback. */
void
Batcher::call()
{
	Transaction tx(session);
	int n = do_callbacks(session, tx, random.between(1, 5));
	if (n > 0 && random.chance(20) && !is_crowded())
	{
		Batched::Known batch = create(tx);
		add_some(tx, batch, 3);
		close_batch(session, tx, batch);
	}
	finish(tx);
}

/* ---- ends of other kinds ---- */

void
Batcher::cancel()
{
	Transaction tx(session);
	tx.mark();
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	for (const Batched::Known &member : world.batched.some_members(random.next() % 1000, 3))
		if (!tx.run("SELECT pgq_cancel($1)", {number(member.id)}).is_null(0, 0))
			world.batched.ended(tx.tx(), member.key, MemberEnd::kGone);
	finish(tx);
}

/* Delete members by SQL, or dead letters of members. */
void
Batcher::remove()
{
	by_hand = true;
	std::string ids;
	for (const Batched::Known &member : world.batched.some_members(random.next() % 1000, 3))
		ids += (ids.empty() ? "" : ",") + number(member.id);
	Transaction tx(session);
	tx.mark();
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	std::string table = random.chance(50) ? "pgq_ext.job" : "pgq_ext.dead_job";
	Rows rows = tx.run("DELETE FROM " + table + " WHERE job_id = ANY($1) RETURNING payload",
					   {"{" + ids + "}"});
	for (int i = 0; i < rows.size(); i++)
		world.batched.ended(tx.tx(), rows.number(i, 0), MemberEnd::kGone);
	finish(tx);
}

void
Batcher::redrive()
{
	Transaction tx(session);
	(void) tx.run("SELECT pgq_redrive($1, $2)", {kMembersQueue, number(random.between(1, 10))});
	finish(tx);
}

/* Cancel a batch, whose other members the scheduler then ends. */
void
Batcher::cancel_batch()
{
	Batched::Known batch;
	if (!world.batched.some_batch(random.next() % 1000, &batch))
		return;
	Transaction tx(session);
	tx.mark();
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	world.batched.cancelling(tx.tx(), batch.key);
	(void) tx.run("SELECT pgq_cancel_batch($1)", {number(batch.id)});
	finish(tx);
}

void
Batcher::purge()
{
	Transaction tx(session);
	tx.mark();
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	world.batched.purging(tx.tx());
	(void) tx.run("SELECT pgq_purge_queue($1)", {kMembersQueue});
	/* A transaction that has purged a queue cannot be prepared. */
	if (random.chance(15))
		tx.roll_back();
	else
		tx.commit();
}

void
Batcher::turn()
{
	if (!world.batches)
	{
		nap(100 * kMillisecond);
		return;
	}
	nap(random.between(1, 60) * kMillisecond);
	int n = random.between(1, 1000);
	if (n <= 200)
		make();
	else if (n <= 300)
		add();
	else if (n <= 430)
		close();
	else if (n <= 780)
		work();
	else if (n <= 920)
		call();
	else if (n <= 950)
		cancel();
	else if (n <= 970)
		remove();
	else if (n <= 985)
		redrive();
	else if (n <= 997)
		cancel_batch();
	else
		purge();
}

std::unique_ptr<Actor>
make_batcher(World &world, int number)
{
	return std::make_unique<Batcher>(world, "batcher " + std::to_string(number));
}

} // namespace torture
