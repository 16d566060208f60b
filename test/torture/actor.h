/*
 * The actors: each a thread with a connection, and turns that it takes until the end.
 */
#pragma once

#include "transaction.h"

#include <memory>
#include <thread>

namespace torture {

/* Prepared transactions at the same time; with those on their way the server's 20 are enough. */
constexpr size_t kPreparedMax = 8;

class Actor
{
public:
	Actor(World &world, const std::string &name);
	virtual ~Actor() = default;

	void start();
	/* At the end of the run, before it is destroyed. */
	void join();
	/* For the killer; any thread. */
	Connection &connection() { return session.connection; }

protected:
	World &world;
	Random random;
	Session session;

	virtual void turn() = 0;
	/* A queue of the errors that the last turn could have met may be dropped. */
	bool temporary = false;
	/* It wrote or locked rows by SQL, which the scheduler may just be moving. */
	bool by_hand = false;

	/* One of the queues, now and then the one that comes and goes. */
	std::string some_queue();
	JobSpec some_job();
	/* Is there room for one more prepared transaction? */
	bool may_prepare() { return world.prepares && world.prepared.size() < kPreparedMax; }

private:
	std::thread thread;

	void work();
	void take_turn();
};

std::unique_ptr<Actor> make_producer(World &world, int number);
std::unique_ptr<Actor> make_consumer(World &world, int number);
std::unique_ptr<Actor> make_administrator(World &world);
/* Holds locks and snapshots, mostly on one segment. */
std::unique_ptr<Actor> make_holder(World &world, int number);
/* Ends prepared transactions of others. */
std::unique_ptr<Actor> make_notary(World &world);

std::unique_ptr<Actor> make_coordinator(World &world, int number);
/* Changes schedules, and does the jobs of ticks. */
std::unique_ptr<Actor> make_timekeeper(World &world);

/* Commit or roll back a prepared transaction; the ledger knows the outcome when this returns. */
void end_prepared(Session &session, const TxRef &tx, bool commit);

} // namespace torture
