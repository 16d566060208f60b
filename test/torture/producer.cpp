#include "actor.h"

namespace torture {

/* Most jobs in the slow queue: few among many others. */
static constexpr size_t kSlowMost = 30;

/* Jobs in the queue of turns: so many that most groups always have one. */
static constexpr size_t kTurnsFew = 40;
static constexpr size_t kTurnsMany = 120;

namespace {

class Producer : public Actor
{
public:
	using Actor::Actor;

private:
	void turn() override;
	std::vector<JobSpec> some_jobs(int most);
	void add_some(Transaction &tx);
	void waste_room();
	void enqueue_keyed();
	void fill_turns();
	std::string some_open_queue();
};

} // namespace

std::vector<JobSpec>
Producer::some_jobs(int most)
{
	std::vector<JobSpec> jobs;
	for (int i = random.between(1, most); i > 0; i--)
		jobs.push_back(some_job());
	return jobs;
}

/* Return a queue whose jobs have no unique keys. */
std::string
Producer::some_open_queue()
{
	if (world.crowd && random.chance(60))
		return random.pick(kCrowdedQueues);
	std::string queue = some_queue();
	return queue == kKeyedQueue ? kQueues[0] : queue;
}

/*
 * Enqueue jobs with unique keys. The enqueue waits for an open transaction that has enqueued the
 * same key. lock_timeout bounds that wait, since the other transaction may be prepared.
 */
void
Producer::enqueue_keyed()
{
	Transaction tx(session);
	(void) tx.run("SET LOCAL lock_timeout = '300 ms'");
	for (int i = random.between(1, 3); i > 0; i--)
	{
		JobSpec job = some_job();
		(void) tx.enqueue_keyed({.priority = job.priority, .delay = job.delay}, random.chance(30));
		if (random.chance(30))
			nap(random.between(1, 50) * kMillisecond);
	}
	int end = random.between(1, 100);
	if (end <= 20)
		tx.roll_back();
	else if (end <= 30 && may_prepare())
		tx.prepare();
	else
		tx.commit();
}

/* Enqueue jobs that are ready at once, with few priorities, so that groups compete for turns. */
void
Producer::fill_turns()
{
	if (world.ledger.live_in(kTurnsQueue).size() > (world.crowd ? kTurnsMany : kTurnsFew))
		return;
	Transaction tx(session);
	std::vector<JobSpec> jobs;
	for (int i = random.between(10, 30); i > 0; i--)
		jobs.push_back({.priority = random.between(0, 1)});
	tx.enqueue_many(kTurnsQueue, jobs);
	tx.commit();
}

void
Producer::add_some(Transaction &tx)
{
	if (random.chance(50))
		tx.enqueue_many(some_open_queue(), some_jobs(random.chance(5) ? 300 : 20));
	else
		for (const JobSpec &job : some_jobs(5))
			tx.enqueue(some_open_queue(), job);
}

/*
 * Enqueue jobs and roll back. The dead rows fill segments, so live rows soon are a small part of a
 * segment.
 */
void
Producer::waste_room()
{
	Transaction tx(session);
	tx.enqueue_many(some_open_queue(), some_jobs(100));
	tx.roll_back();
}

void
Producer::turn()
{
	if (random.chance(5))
		waste_room();
	if (random.chance(5) && world.ledger.live_in(kSlowQueue).size() < kSlowMost)
		session.enqueue(kSlowQueue, {.priority = random.between(-2, 2)});
	if (random.chance(20))
		fill_turns();
	/* Only a few jobs can exist at a time, since there are few keys. */
	if (random.chance(8))
		enqueue_keyed();
	if (world.ledger.live_count() > world.backlog)
	{
		nap(50 * kMillisecond);
		return;
	}
	nap(random.between(0, 20) * kMillisecond);
	if (random.chance(40))
	{
		session.enqueue(some_open_queue(), some_job());
		return;
	}
	Transaction tx(session, random.chance(10) ? "REPEATABLE READ" : "READ COMMITTED");
	for (int part = random.between(1, 3); part > 0; part--)
	{
		if (random.chance(60))
		{
			add_some(tx);
			continue;
		}
		tx.savepoint();
		add_some(tx);
		if (random.chance(50))
			tx.roll_back_to_savepoint();
		else
			tx.release_savepoint();
	}
	int end = random.between(1, 100);
	if (end <= 15)
		tx.roll_back();
	else if (end <= 25 && may_prepare())
		tx.prepare();
	else
		tx.commit();
}

std::unique_ptr<Actor>
make_producer(World &world, int number)
{
	return std::make_unique<Producer>(world, "producer " + std::to_string(number));
}

} // namespace torture
