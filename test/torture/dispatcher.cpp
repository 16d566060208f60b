#include "dispatcher.h"

namespace torture {

namespace {

/*
 * An actor that enqueues jobs for the handlers and cancels some; and that pauses, resumes, changes
 * and drops the handlers.
 */
class Dispatcher : public Actor
{
public:
	using Actor::Actor;

private:
	void turn() override;
	void enqueue_some(Transaction &tx, std::vector<Key> *keys);
	void enqueue();
	std::vector<std::pair<Key, int64_t>> some_jobs();
	void cancel();
	void pause();
	void resume();
	void set_again();
	void drop();
	void redrive();
	void look();
};

} // namespace

static constexpr int kMostJobs = 120;

/* ---- jobs ---- */

/* Enqueue some jobs for a handler, by one call or several. */
void
Dispatcher::enqueue_some(Transaction &tx, std::vector<Key> *keys)
{
	std::string queue = random.pick(kHandledQueues);
	bool many = random.chance(50);
	std::string array;
	std::vector<Key> own;
	tx.mark();
	for (int i = random.between(1, many ? 25 : 3); i > 0; i--)
	{
		Key key = world.handled.enqueuing(tx.tx(), queue);
		JobSpec job = some_job();
		job.delay = std::min(job.delay, kSecond);
		own.push_back(key);
		keys->push_back(key);
		if (many)
			array += (array.empty() ? "[" : ",") + std::string("{\"payload\":") + number(key) +
					 ",\"priority\":" + number(job.priority) + ",\"delay\":\"" +
					 milliseconds(job.delay) + "\"}";
		else
			world.handled.enqueued(
				key, tx.run("SELECT pgq_enqueue($1, $2, $3, delay => $4)",
							{queue, number(key), number(job.priority), milliseconds(job.delay)})
						 .number(0, 0));
	}
	if (!many)
		return;
	Rows rows = tx.run("SELECT pgq_enqueue_many($1, $2)", {queue, array + "]"});
	for (int i = 0; i < rows.size(); i++)
		world.handled.enqueued(own[static_cast<size_t>(i)], rows.number(i, 0));
}

void
Dispatcher::enqueue()
{
	Rows rows = session.connection.run("SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING "
									   "(queue_id) WHERE queue = ANY($1)",
									   {array_of(kHandledQueues)});
	if (rows.number(0, 0) > kMostJobs)
	{
		nap(50 * kMillisecond);
		return;
	}
	Transaction tx(session, random.chance(10) ? "REPEATABLE READ" : "READ COMMITTED");
	for (int part = random.between(1, 3); part > 0; part--)
	{
		std::vector<Key> keys;
		if (random.chance(60))
		{
			enqueue_some(tx, &keys);
			continue;
		}
		tx.savepoint();
		enqueue_some(tx, &keys);
		if (random.chance(50))
		{
			tx.roll_back_to_savepoint();
			world.handled.undone(keys);
		}
		else
			tx.release_savepoint();
	}
	finish(tx);
}

/* Return some jobs that were enqueued a short time ago, or that are in work just now. */
std::vector<std::pair<Key, int64_t>>
Dispatcher::some_jobs()
{
	size_t n = static_cast<size_t>(random.between(1, 4));
	if (random.chance(30))
		return world.handled.some(random.next() % 1000, n);
	std::vector<std::pair<Key, int64_t>> jobs;
	Rows rows = session.connection.run(
		"SELECT payload, job_id FROM pgq_ext.lease_entries() AS l JOIN pgq_ext.queue USING "
		"(queue_id) JOIN pgq_ext.job USING (job_id) WHERE queue = ANY($1) AND state = 'claimed'",
		{array_of(kHandledQueues)});
	for (int i = 0; i < rows.size() && jobs.size() < n; i++)
		if (-rows.number(i, 0) < kFollowUp)
			jobs.emplace_back(rows.number(i, 0), rows.number(i, 1));
	return jobs;
}

/* Cancel some jobs, which may wait, be in work, or be done. */
void
Dispatcher::cancel()
{
	std::vector<std::pair<Key, int64_t>> jobs = some_jobs();
	Transaction tx(session);
	tx.mark();
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	for (const auto &[key, id] : jobs)
	{
		world.handled.cancelling(tx.tx(), key);
		Rows rows = tx.run("SELECT pgq_cancel($1)", {number(id)});
		world.handled.cancelled(tx.tx(), key, !rows.is_null(0, 0));
		world.handled.cancels_in_work += rows.text(0, 0) == "leased";
	}
	nap(random.between(0, 200) * kMillisecond);
	finish(tx);
}

/* Turn dead letters back into jobs. */
void
Dispatcher::redrive()
{
	Transaction tx(session);
	(void) tx.run("SELECT pgq_redrive($1)", {random.pick(kHandledQueues)});
	finish(tx);
}

/* ---- handlers ---- */

void
Dispatcher::resume()
{
	for (const std::string &queue : kHandledQueues)
		(void) session.connection.run("SELECT pgq_resume_handler($1)", {queue});
}

void
Dispatcher::pause()
{
	Transaction tx(session);
	world.handled.changing(tx.tx());
	(void) tx.run("SELECT pgq_pause_handler($1)", {random.pick(kHandledQueues)});
	nap(random.between(0, 100) * kMillisecond);
	finish(tx);
	nap(random.between(0, 500) * kMillisecond);
	resume();
}

/* Set a handler with other options, in the middle of its work. */
void
Dispatcher::set_again()
{
	std::string queue = random.pick(kHandledQueues);
	Transaction tx(session);
	world.handled.changing(tx.tx());
	(void) tx.run(setting_of(queue, some_handler(random, queue)));
	if (random.chance(30))
	{
		std::vector<Key> keys;
		enqueue_some(tx, &keys);
	}
	finish(tx);
}

void
Dispatcher::drop()
{
	std::string queue = random.pick(kHandledQueues);
	{
		Transaction tx(session);
		world.handled.changing(tx.tx());
		(void) tx.run("SELECT pgq_drop_handler($1)", {queue});
		nap(random.between(0, 100) * kMillisecond);
		finish(tx);
	}
	nap(random.between(0, 500) * kMillisecond);
	(void) session.connection.run(setting_of(queue, some_handler(random, queue)));
}

/* Read the views. Nothing in this test gives the server a reason to suspend a handler. */
void
Dispatcher::look()
{
	Rows rows = session.connection.run("SELECT queue, state, reason FROM pgq_ext.handler");
	for (int i = 0; i < rows.size(); i++)
		if (rows.text(i, 1) == "suspended")
			world.ledger.violation("the handler of " + rows.text(i, 0) +
								   " is suspended: " + rows.text(i, 2));
}

void
Dispatcher::turn()
{
	if (!world.handlers)
	{
		nap(100 * kMillisecond);
		return;
	}
	nap(random.between(1, 100) * kMillisecond);
	temporary = true; /* the other dispatcher may have dropped the handler */
	int n = random.between(1, 100);
	if (n <= 60)
		enqueue();
	else if (n <= 72)
		cancel();
	else if (n <= 77)
		pause();
	else if (n <= 83)
		resume();
	else if (n <= 90)
		set_again();
	else if (n <= 93)
		drop();
	else if (n <= 96)
		redrive();
	else
		look();
}

std::unique_ptr<Actor>
make_dispatcher(World &world, int number)
{
	return std::make_unique<Dispatcher>(world, "dispatcher " + std::to_string(number));
}

} // namespace torture
