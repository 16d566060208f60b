#include "actor.h"

#include <signal.h>

namespace torture {

namespace {

/*
 * An actor that works on a segment and takes its time: locks, snapshots, VACUUM, changes by SQL.
 * Segments are closed, drained and truncated at the same time. Every reader must see each job
 * exactly once.
 */
class Holder : public Actor
{
public:
	Holder(World &world, const std::string &name) : Actor(world, name), other(world) {}

private:
	Session other;

	void turn() override;
	std::string some_segment();
	void lock_segment();
	void tidy_segment();
	void lock_rows();
	bool start_to_change(Connection &connection, const std::string &which);
	void change_closed_rows();
	void lock_closed_rows(Transaction &tx);
	void read_twice();
	void read_late();
	pid_t wait_for_scheduler(Transaction &tx);
	void keep_scheduler();
	void compare(const char *what, const std::set<int64_t> &expected,
				 const std::set<int64_t> &found);
};

} // namespace

/* Return a segment, usually one that is not empty. */
std::string
Holder::some_segment()
{
	std::vector<std::string> all;
	std::vector<std::string> used;
	Rows rows = session.connection.run("SELECT relation::regclass, pg_relation_size(relation) > 0 "
									   "FROM pgq_ext.segment_entries()");
	for (int i = 0; i < rows.size(); i++)
	{
		all.push_back(rows.text(i, 0));
		if (rows.text(i, 1) == "t")
			used.push_back(all.back());
	}
	return random.pick(used.empty() || random.chance(20) ? all : used);
}

/* ---- locks ---- */

/*
 * Lock one segment, or all of them. The lock lasts so long that rows may be moved into an empty
 * segment that is due to be truncated.
 */
void
Holder::lock_segment()
{
	static const std::vector<std::string> modes = {"ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE",
												   "SHARE UPDATE EXCLUSIVE"};
	bool all = random.chance(15);
	std::string table = all ? "pgq_ext.job" : some_segment();
	Transaction tx(session);
	(void) tx.run("LOCK TABLE " + table + " IN " + (all ? modes[0] : random.pick(modes)) + " MODE");
	nap((all ? random.between(2000, 5000) : random.between(50, 1500)) * kMillisecond);
	tx.commit();
}

void
Holder::tidy_segment()
{
	int n = random.between(1, 100);
	const char *command = n <= 60 ? "VACUUM " : n <= 75 ? "VACUUM FULL " : "REINDEX TABLE ";
	(void) session.connection.run(command + some_segment());
}

void
Holder::lock_rows()
{
	by_hand = true;
	std::vector<Key> keys;
	std::string ids;
	for (const auto &[key, id] : world.ledger.some_live(random.next() % 100000, 5))
	{
		ids += (ids.empty() ? "" : ",") + number(id);
		keys.push_back(key);
	}
	world.ledger.touched(keys);
	Transaction tx(session);
	(void) tx.run("SELECT FROM pgq_ext.job WHERE job_id = ANY($1) FOR UPDATE SKIP LOCKED",
				  {"{" + ids + "}"});
	nap(random.between(0, 700) * kMillisecond);
	tx.commit();
}

/* Start to change the rows that a query finds, by SQL. Returns false if there are none. */
bool
Holder::start_to_change(Connection &connection, const std::string &which)
{
	by_hand = true;
	std::vector<Key> keys;
	std::string ids;
	Rows rows = connection.run("SELECT job_id, payload FROM pgq_ext.job " + which + " LIMIT " +
							   number(random.between(1, 5)));
	for (int i = 0; i < rows.size(); i++)
	{
		ids += (ids.empty() ? "" : ",") + rows.text(i, 0);
		keys.push_back(rows.number(i, 1));
	}
	if (keys.empty())
		return false;
	world.ledger.touched(keys);
	connection.send("UPDATE pgq_ext.job SET priority = priority - 1 WHERE job_id = ANY($1)",
					{"{" + ids + "}"});
	return true;
}

/* Change rows that the scheduler is about to move. */
void
Holder::change_closed_rows()
{
	if (start_to_change(session.connection,
						"JOIN pgq_ext.segment_entries() USING (segment) WHERE NOT is_current"))
		(void) session.connection.receive();
}

/*
 * Lock all rows that no other transaction has locked, so that there are segments in which no row is
 * free.
 */
void
Holder::lock_closed_rows(Transaction &tx)
{
	by_hand = true;
	std::vector<Key> keys;
	Rows rows = tx.run("SELECT payload FROM pgq_ext.job AS j JOIN pgq_ext.segment_entries() USING "
					   "(segment) WHERE NOT is_current AND NOT pgq_ext.is_leased(job_id) "
					   "FOR UPDATE OF j SKIP LOCKED");
	for (int i = 0; i < rows.size(); i++)
		keys.push_back(rows.number(i, 0));
	world.ledger.touched(keys);
}

namespace {

/* While an object of this class exists, all actors claim the jobs that the scheduler is moving. */
class MovingTime
{
public:
	explicit MovingTime(World &world) : world(world)
	{
		world.counters.kept_moves++;
		world.moving = true;
	}
	~MovingTime() { world.moving = false; }
	MovingTime(const MovingTime &) = delete;

private:
	World &world;
};

} // namespace

namespace {

/* Tells the ledger at its end that rows may have been kept in the middle of a move. */
class KeptMove
{
public:
	explicit KeptMove(World &world) : world(world) {}
	~KeptMove() { world.ledger.move_kept(from, now()); }
	KeptMove(const KeptMove &) = delete;

private:
	World &world;
	Time from = now() - kSecond; /* the scheduler waits for less than a second when it is seen */
};

} // namespace

/* Return the pid of the scheduler; 0 if it does not reach the stop point soon. */
pid_t
Holder::wait_for_scheduler(Transaction &tx)
{
	for (Time end = now() + 5 * kSecond; now() < end; nap(20 * kMillisecond))
	{
		Rows rows = tx.run("SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE "
						   "locktype = 'advisory' AND NOT granted AND "
						   "backend_type <> 'client backend'");
		if (rows.size() > 0)
			return static_cast<pid_t>(rows.number(0, 0));
	}
	return 0;
}

/*
 * Keep the scheduler at the stop point of this run of the server, if it reaches it. If rows are
 * being moved there, the actors claim their jobs, or change them by SQL as soon as the scheduler
 * goes on; or the scheduler is ended, and the move is undone. With the stop point before a
 * TRUNCATE, rows were locked when the scheduler looked at them, and are free again afterwards.
 */
void
Holder::keep_scheduler()
{
	other.connect_if_broken();
	Transaction tx(session);
	std::string point = tx.run("SELECT current_setting('pgq_ext.stop_point')").text(0, 0);
	if (point.empty())
		return;
	(void) tx.run("SELECT pg_advisory_xact_lock(7366513, 0)");
	std::optional<Transaction> locker;
	if (point == "rotation-verified")
		lock_closed_rows(locker.emplace(other));
	pid_t scheduler = wait_for_scheduler(tx);
	if (locker)
		locker->commit();
	if (scheduler == 0)
		return;
	KeptMove kept(world);
	bool changing =
		point == "rotation-moved" && random.chance(30) &&
		start_to_change(other.connection,
						"JOIN pgq_ext.lease_entries() USING (job_id) WHERE state = 'moving'");
	{
		std::optional<MovingTime> time;
		if (point == "rotation-moved" && !changing)
			time.emplace(world);
		nap(random.between(20, 600) * kMillisecond);
		if (random.chance(50))
		{
			world.ledger.scheduler_disturbed();
			(void) world.cluster.signal(scheduler, random.chance(50) ? SIGINT : SIGTERM);
		}
	}
	tx.commit();
	if (changing)
		(void) other.connection.receive();
}

/* ---- snapshots ---- */

static const char kReadJobs[] = "SELECT job_id FROM pgq_ext.job";

static std::set<int64_t>
ids_of(const Rows &rows)
{
	std::set<int64_t> ids;
	for (int i = 0; i < rows.size(); i++)
		ids.insert(rows.number(i, 0));
	return ids;
}

void
Holder::compare(const char *what, const std::set<int64_t> &expected, const std::set<int64_t> &found)
{
	if (found == expected)
		return;
	std::string difference;
	for (int64_t id : expected)
		if (!found.contains(id))
			difference += " -" + number(id);
	for (int64_t id : found)
		if (!expected.contains(id))
			difference += " +" + number(id);
	world.ledger.violation(std::string(what) + " sees other jobs than before:" + difference);
}

/*
 * Read all jobs twice in one transaction. The first read locks the segments, so none may be
 * truncated before the second.
 */
void
Holder::read_twice()
{
	Transaction tx(session, "REPEATABLE READ");
	bool by_cursor = random.chance(50);
	if (by_cursor)
		(void) tx.run(std::string("DECLARE jobs CURSOR FOR ") + kReadJobs);
	Rows rows = tx.run(kReadJobs);
	std::set<int64_t> expected = ids_of(rows);
	if (static_cast<int>(expected.size()) != rows.size())
		world.ledger.violation("a job is in two segments");
	nap(random.between(0, 1000) * kMillisecond);
	compare(by_cursor ? "a cursor" : "a transaction", expected,
			ids_of(tx.run(by_cursor ? "FETCH ALL FROM jobs" : kReadJobs)));
	tx.commit();
}

/*
 * Read as pg_dump does: take a snapshot first, and lock the segments later. The result must equal
 * that of another session which uses the same snapshot, and which has locked all segments before
 * the snapshot was taken.
 */
void
Holder::read_late()
{
	/* A transaction of another application than pg_dump keeps TRUNCATE away only for 10 s. */
	static constexpr Time kYoung = 9 * kSecond;
	bool is_dump = random.chance(50);
	other.connect_if_broken();
	Transaction first(other, "REPEATABLE READ");
	(void) first.run("LOCK TABLE pgq_ext.job IN ACCESS SHARE MODE");
	Time begun = now();
	Transaction late(session, "REPEATABLE READ");
	if (is_dump)
		(void) late.run("SET LOCAL application_name = 'pg_dump'");
	Rows snapshot = late.run("SELECT pg_export_snapshot()");
	(void) first.run("SET TRANSACTION SNAPSHOT '" + snapshot.text(0, 0) + "'");
	std::set<int64_t> expected = ids_of(first.run(kReadJobs));
	first.commit();
	nap(random.between(0, 2500) * kMillisecond);
	std::set<int64_t> found = ids_of(late.run(kReadJobs));
	if (is_dump || now() - begun < kYoung)
		compare(is_dump ? "a dump" : "a young transaction", expected, found);
	late.commit();
}

void
Holder::turn()
{
	nap(random.between(1, 500) * kMillisecond);
	/* While a session waits for a strong lock, all later sessions wait too, so limit the wait. */
	(void) session.connection.run("SET lock_timeout = '300 ms'");
	(void) session.moved_rows();
	int n = random.between(1, 100);
	if (n <= 18)
		lock_segment();
	else if (n <= 30)
		tidy_segment();
	else if (n <= 38)
		lock_rows();
	else if (n <= 45)
		change_closed_rows();
	else if (n <= 53)
		read_twice();
	else if (n <= 64)
		read_late();
	else
		keep_scheduler();
}

std::unique_ptr<Actor>
make_holder(World &world, int number)
{
	return std::make_unique<Holder>(world, "holder " + std::to_string(number));
}

} // namespace torture
