/*
 * The actors. Each is a thread with a connection, which takes random turns until the end of the
 * run.
 */
#pragma once

#include "transaction.h"

#include <memory>
#include <thread>

namespace torture {

/*
 * Bound of prepared transactions waiting for their end. Each actor may be preparing one more;
 * together the server's 20 are enough.
 */
constexpr size_t kPreparedMax = 8;

class Actor
{
public:
	Actor(World &world, const std::string &name);
	virtual ~Actor() = default;

	void start();
	/* Wait for the end of the thread. Call at the end of the run, before the actor is destroyed. */
	void join();
	/* Return the connection, for the killer. May be called by any thread. */
	Connection &connection() { return session.connection; }

protected:
	World &world;
	Random random;
	Session session;

	virtual void turn() = 0;
	/* The last turn used a queue that may be dropped, so errors of a dropped queue are expected. */
	bool temporary = false;
	/* The last turn wrote or locked rows by SQL, which the scheduler may be moving just then. */
	bool by_hand = false;

	/* Return the name of a random queue, sometimes of the temporary one. */
	std::string some_queue();
	JobSpec some_job();
	/* Return whether one more prepared transaction is allowed. */
	bool may_prepare() { return world.prepares && world.prepared.size() < kPreparedMax; }
	/* Commit the transaction, or sometimes roll it back or prepare it. */
	void finish(Transaction &tx);

private:
	std::thread thread;

	void work();
	void take_turn();
};

std::unique_ptr<Actor> make_producer(World &world, int number);
std::unique_ptr<Actor> make_consumer(World &world, int number);
std::unique_ptr<Actor> make_administrator(World &world);
/* Make an actor that holds locks and snapshots, usually on one segment. */
std::unique_ptr<Actor> make_holder(World &world, int number);
/* Make an actor that ends prepared transactions of other actors. */
std::unique_ptr<Actor> make_notary(World &world);

std::unique_ptr<Actor> make_coordinator(World &world, int number);
/* Make an actor that changes schedules, and works on the jobs of ticks. */
std::unique_ptr<Actor> make_timekeeper(World &world);
/* Make an actor that enqueues jobs for handlers, and changes the handlers. */
std::unique_ptr<Actor> make_dispatcher(World &world, int number);
/* Make an actor that makes batches, and works on members and callbacks. */
std::unique_ptr<Actor> make_batcher(World &world, int number);
/* Make an actor that enqueues jobs that wait for other jobs, and works on them. */
std::unique_ptr<Actor> make_grapher(World &world, int number);

/* Commit or roll back a prepared transaction. When this returns, the ledger knows the outcome. */
void end_prepared(Session &session, const TxRef &tx, bool commit);

} // namespace torture
