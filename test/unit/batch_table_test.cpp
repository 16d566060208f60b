/*
 * The table of batches: its rules one by one, and random walks. A walk has databases with batches
 * whose members come, end and die, callbacks that come late, and a scheduler that sleeps until it is
 * woken. The oracle is the end of the walk: every batch that has ended has fired.
 */
#include "core/batch_table.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <vector>

namespace {

using pgq::BatchNews;
using pgq::BatchTable;
using pgq::BatchTold;
using State = BatchTable::State;

class BatchTableTest : public testing::Test
{
protected:
	void init(int databases, int own, int common)
	{
		owners.resize(databases);
		entries.resize(common + databases * own);
		table.init(entries.data(), owners.data(), databases, own, common);
	}
	bool end(int database, int64_t batch, int64_t first, int64_t last)
	{
		return table.tell(database, {batch, BatchNews::kEnd, first, last});
	}
	bool change(int database, int64_t batch)
	{
		return table.tell(database, {batch, BatchNews::kChange, 0, 0});
	}
	/* Let the batch wait for the witness. */
	void wait(int database, int64_t batch, int64_t witness)
	{
		table.begin_look(database, batch);
		table.end_look(database, batch, State::kWaits, witness);
	}
	int64_t next(int database)
	{
		int64_t batch;
		return table.next_told(database, &batch) ? batch : 0;
	}

	std::vector<BatchTable::Entry> entries;
	std::vector<BatchTable::Database> owners;
	BatchTable table;
};

TEST_F(BatchTableTest, OnlyTheEndOfTheWitnessIsNews)
{
	init(1, 0, 4);
	wait(0, 7, 50);
	EXPECT_FALSE(table.is_news(0, {7, BatchNews::kEnd, 40, 49}));
	EXPECT_FALSE(end(0, 7, 40, 49));
	EXPECT_FALSE(end(0, 7, 51, 51));
	EXPECT_EQ(table.state(0, 7), State::kWaits);
	EXPECT_TRUE(table.is_news(0, {7, BatchNews::kEnd, 1, 50}));
	EXPECT_TRUE(end(0, 7, 1, 50));
	EXPECT_EQ(table.state(0, 7), State::kTold);
}

TEST_F(BatchTableTest, AnOpenBatchWaitsForAChange)
{
	init(1, 0, 4);
	table.begin_look(0, 7);
	table.end_look(0, 7, State::kOpen);
	EXPECT_FALSE(end(0, 7, 1, 100));
	EXPECT_EQ(table.state(0, 7), State::kOpen);
	EXPECT_TRUE(change(0, 7));
	EXPECT_EQ(table.state(0, 7), State::kTold);
}

TEST_F(BatchTableTest, ADeathIsNewsWhateverIsAwaited)
{
	init(1, 0, 4);
	wait(0, 7, 50);
	EXPECT_TRUE(change(0, 7));
	EXPECT_EQ(table.state(0, 7), State::kTold);
}

TEST_F(BatchTableTest, NewsDuringALookMeansAnotherLook)
{
	init(1, 0, 4);
	for (State to : {State::kWaits, State::kOpen, State::kNone})
	{
		EXPECT_TRUE(end(0, 7, 1, 1));
		EXPECT_EQ(next(0), 7);
		EXPECT_FALSE(end(0, 7, 2, 2)); /* The scheduler is awake. */
		EXPECT_EQ(table.state(0, 7), State::kAgain);
		EXPECT_EQ(next(0), 0);
		table.end_look(0, 7, to, 9);
		EXPECT_EQ(next(0), 7);
		table.end_look(0, 7, State::kNone);
		EXPECT_EQ(table.state(0, 7), State::kNone);
		EXPECT_EQ(table.used(0), 0);
	}
}

TEST_F(BatchTableTest, ABatchThatIsPutBackGoesToTheEndOfTheLine)
{
	init(1, 0, 4);
	EXPECT_TRUE(end(0, 1, 1, 1));
	EXPECT_FALSE(end(0, 2, 2, 2));
	EXPECT_EQ(table.told(0), 2u);
	EXPECT_EQ(next(0), 1);
	table.put_back(0, 1);
	EXPECT_EQ(next(0), 2);
	EXPECT_EQ(next(0), 1);
	EXPECT_EQ(table.told(0), 0u);
}

TEST_F(BatchTableTest, ALookWithoutAnEntryForgetsNoNews)
{
	init(1, 0, 1);
	EXPECT_TRUE(end(0, 1, 1, 1)); /* takes the only entry */
	table.begin_look(0, 2);
	EXPECT_EQ(table.state(0, 2), State::kNone);
	EXPECT_FALSE(end(0, 2, 9, 9));
	EXPECT_TRUE(table.all(0));
	table.end_look(0, 2, State::kWaits, 9);
	EXPECT_EQ(table.state(0, 2), State::kNone);
	EXPECT_TRUE(table.take_all(0));
	EXPECT_FALSE(table.take_all(0));
	/* An entry that news has made during such a look stays TOLD. */
	table.begin_look(0, 2);
	EXPECT_EQ(next(0), 1);
	table.end_look(0, 1, State::kNone);
	EXPECT_TRUE(end(0, 2, 9, 9));
	table.end_look(0, 2, State::kWaits, 9);
	table.end_look(0, 2, State::kNone);
	EXPECT_EQ(table.state(0, 2), State::kTold);
	/* Without room, a look that is put back raises `all`. */
	table.put_back(0, 3);
	EXPECT_TRUE(table.all(0));
}

TEST_F(BatchTableTest, OnlyEntriesThatWaitAreGivenUp)
{
	init(1, 0, 3);
	wait(0, 1, 10);
	table.begin_look(0, 2);
	EXPECT_TRUE(end(0, 3, 1, 1));
	EXPECT_FALSE(end(0, 4, 1, 1));
	EXPECT_EQ(table.state(0, 1), State::kNone);
	EXPECT_EQ(table.state(0, 4), State::kTold);
	EXPECT_FALSE(table.all(0));
	EXPECT_FALSE(end(0, 5, 1, 1));
	EXPECT_EQ(table.state(0, 5), State::kNone);
	EXPECT_EQ(table.state(0, 2), State::kLooking);
	EXPECT_TRUE(table.all(0));
}

TEST_F(BatchTableTest, NoDatabaseStarvesAnother)
{
	init(3, 1, 6);
	/* What nobody else needs, one database can have. */
	for (int64_t batch = 1; batch <= 9; batch++)
		wait(0, batch, 1);
	EXPECT_EQ(table.used(0), 7);
	EXPECT_EQ(table.common_used(), 6);
	/* The others get as many. */
	for (int64_t batch = 1; batch <= 9; batch++)
	{
		wait(1, batch, 1);
		wait(2, batch, 1);
	}
	for (int database : {0, 1, 2})
		EXPECT_EQ(table.used(database), 3) << database;
	EXPECT_EQ(table.common_used(), 6);
	EXPECT_EQ(table.peak(0), 7);
	EXPECT_EQ(table.common_peak(), 6);
	/* TOLD entries of another database leave each database its own. */
	for (int64_t batch = 1; batch <= 20; batch++)
		change(0, batch);
	EXPECT_TRUE(table.all(0));
	change(1, 1);
	change(2, 1);
	EXPECT_FALSE(table.all(1));
	EXPECT_FALSE(table.all(2));
}

TEST_F(BatchTableTest, DatabasesHaveTheSameIds)
{
	init(2, 2, 2);
	wait(0, 7, 1);
	wait(1, 7, 2);
	EXPECT_FALSE(end(1, 7, 1, 1));
	EXPECT_TRUE(end(1, 7, 2, 2));
	EXPECT_EQ(table.state(0, 7), State::kWaits);
	EXPECT_EQ(table.state(1, 7), State::kTold);
	EXPECT_FALSE(table.drop(1, 9));
	EXPECT_EQ(table.state(0, 7), State::kWaits);
	EXPECT_EQ(table.state(1, 7), State::kNone);
	EXPECT_EQ(table.told(1), 0u);
}

TEST_F(BatchTableTest, ARoundVisitsEachEntryThatWaits)
{
	init(2, 0, 40);
	std::set<int64_t> waiting, met;
	for (int64_t batch = 1; batch <= 30; batch++)
	{
		wait(0, batch, 100 + batch);
		if (batch % 3 == 0)
			change(0, batch);
		else
			waiting.insert(batch);
	}
	wait(1, 99, 1);
	int position = 0;
	while (position < table.capacity())
		if (const BatchTable::Entry *entry = table.next_awaited(0, &position, 7))
		{
			EXPECT_EQ(entry->witness, 100 + entry->batch_id);
			EXPECT_TRUE(met.insert(entry->batch_id).second);
		}
	EXPECT_EQ(met, waiting);
	EXPECT_FALSE(table.repair(0, 1, 7)); /* another witness */
	EXPECT_EQ(table.state(0, 1), State::kWaits);
	EXPECT_TRUE(table.repair(0, 1, 101));
	EXPECT_EQ(table.state(0, 1), State::kTold);
	EXPECT_FALSE(table.repair(0, 1, 101));
	EXPECT_FALSE(table.repair(0, 77, 1));
}

TEST_F(BatchTableTest, ADropHasABound)
{
	init(1, 0, 10);
	for (int64_t batch = 1; batch <= 10; batch++)
		batch % 2 ? wait(0, batch, 1) : static_cast<void>(change(0, batch));
	table.begin_look(0, 4);
	EXPECT_TRUE(table.drop(0, 4));
	EXPECT_EQ(table.used(0), 6);
	EXPECT_TRUE(table.drop(0, 5));
	EXPECT_FALSE(table.drop(0, 5));
	EXPECT_EQ(table.used(0), 0);
	EXPECT_EQ(table.told(0), 0u);
}

/* ---- random walks ---- */

constexpr int kDatabases = 3;
constexpr int kBatches = 5;

struct Batch
{
	std::set<int64_t> live;
	bool closed, died, finished, failed;

	bool pending() const { return !finished; }
};

class Walk
{
public:
	explicit Walk(uint64_t seed) : random(seed)
	{
		own = pick(3);
		int common = 1 + pick(6);
		entries.resize(common + kDatabases * own);
		table.init(entries.data(), owners, kDatabases, own, common);
		for (int database = 0; database < kDatabases; database++)
			start_scheduler(database);
	}

	void run(int steps)
	{
		for (int i = 0; i < steps; i++)
			step();
		drain();
		for (int database = 0; database < kDatabases; database++)
			for (int i = 0; i < kBatches; i++)
			{
				const Batch &batch = batches[database][i];
				EXPECT_EQ(batch.finished, batch.closed && batch.live.empty())
					<< "batch " << i << " of database " << database;
				EXPECT_EQ(batch.failed, batch.died) << "batch " << i << " of " << database;
			}
	}

private:
	/* The scheduler of a database. */
	struct Scheduler
	{
		bool awake;
		int looking;	 /* batch, or -1 */
		bool has_looked; /* The look is done, its end has not been told to the table. */
		State to;
		int64_t witness;
		std::vector<int> sweep; /* batches that are still to be looked at */
	};

	int pick(int n) { return static_cast<int>(random() % n); }

	/* ---- what sessions do: first the tables change, later the callback tells ---- */

	void later(int database, const BatchTold &told) { callbacks[database].push_back(told); }

	void end_members(int database, int batch)
	{
		std::set<int64_t> &live = batches[database][batch].live;
		if (live.empty())
			return;
		int64_t first = *live.begin(), last = first;
		for (int n = 1 + pick(3); n > 0 && !live.empty(); n--)
		{
			auto member = pick(2) ? live.begin() : std::prev(live.end());
			first = std::min(first, *member);
			last = std::max(last, *member);
			live.erase(member);
		}
		later(database, {batch, BatchNews::kEnd, first, last});
	}

	void change_batch(int database, int number)
	{
		Batch &batch = batches[database][number];
		switch (pick(4))
		{
			case 0: /* a death */
				if (batch.live.empty())
					return;
				batch.died = true;
				batch.live.erase(batch.live.begin());
				break;
			case 1: /* an enqueue is undone */
				if (batch.live.empty())
					return;
				batch.live.erase(std::prev(batch.live.end()));
				break;
			default:
				if (pick(4) > 0)
					return;
				batch.closed = true;
		}
		later(database, {number, BatchNews::kChange, 0, 0});
	}

	void add_member(int database, int number)
	{
		Batch &batch = batches[database][number];
		if (!batch.finished && (!batch.closed || !batch.live.empty()))
			batch.live.insert(++last_id);
	}

	void call_back(int database)
	{
		std::vector<BatchTold> &waiting = callbacks[database];
		if (waiting.empty())
			return;
		size_t i = random() % waiting.size();
		BatchTold told = waiting[i];
		waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(i));
		/* as the server does it: two holds of the lock, if it is news */
		if (table.is_news(database, told))
			schedulers[database].awake |= table.tell(database, told);
		else
			EXPECT_FALSE(table.tell(database, told));
	}

	/* ---- the scheduler ---- */

	void start_scheduler(int database)
	{
		schedulers[database] = {.awake = true, .looking = -1};
		table.tell_all(database);
		while (table.drop(database, 2))
			call_back(database);
	}

	/* Look at the tables, and fire what is due: both in one step, since the scheduler has the tag. */
	void look(int database)
	{
		Scheduler &scheduler = schedulers[database];
		Batch &batch = batches[database][scheduler.looking];
		batch.failed |= batch.died;
		scheduler.to = State::kNone;
		if (!batch.closed)
			scheduler.to = State::kOpen;
		else if (!batch.live.empty())
			scheduler.to = State::kWaits;
		else
			batch.finished = true;
		if (!batch.live.empty())
			scheduler.witness =
				*std::next(batch.live.begin(), pick(static_cast<int>(batch.live.size())));
		if (pick(6) == 0)
			scheduler.to = State::kNone; /* Without an entry everything is news. */
		scheduler.has_looked = true;
	}

	void serve(int database)
	{
		Scheduler &scheduler = schedulers[database];
		int64_t told;
		if (scheduler.looking >= 0 && !scheduler.has_looked)
		{
			if (pick(8) > 0)
				return look(database);
			table.put_back(database, scheduler.looking); /* A lock is not free. */
			scheduler.looking = -1;
		}
		else if (scheduler.looking >= 0)
		{
			table.end_look(database, scheduler.looking, scheduler.to, scheduler.witness);
			scheduler.looking = -1;
			scheduler.has_looked = false;
		}
		else if (!scheduler.sweep.empty() && pick(2) == 0)
		{
			scheduler.looking = scheduler.sweep.back();
			scheduler.sweep.pop_back();
			table.begin_look(database, scheduler.looking);
		}
		else if (table.next_told(database, &told))
			scheduler.looking = static_cast<int>(told);
		else if (scheduler.sweep.empty() && table.take_all(database))
			for (int batch = 0; batch < kBatches; batch++)
			{
				if (batches[database][batch].pending())
					scheduler.sweep.push_back(batch);
			}
		else if (scheduler.sweep.empty())
			scheduler.awake = false;
	}

	/* ---- the walk ---- */

	void step()
	{
		int database = pick(kDatabases), batch = pick(kBatches);
		switch (pick(12))
		{
			case 0:
			case 1:
				return add_member(database, batch);
			case 2:
			case 3:
				return end_members(database, batch);
			case 4:
				return change_batch(database, batch);
			case 5:
			case 6:
				return call_back(database);
			case 7:
				if (pick(20) == 0)
					start_scheduler(database);
				return;
			default:
				if (schedulers[database].awake)
					serve(database);
				check();
		}
	}

	void drain()
	{
		for (int database = 0; database < kDatabases; database++)
			while (!callbacks[database].empty())
				call_back(database);
		for (int database = 0; database < kDatabases; database++)
		{
			int steps = 0;
			while (schedulers[database].awake && steps++ < 10000)
				serve(database);
			EXPECT_FALSE(schedulers[database].awake) << "The scheduler finds no end.";
		}
		check();
	}

	/* The numbers that the table keeps are right. */
	void check()
	{
		int used = 0, common = 0;
		for (int database = 0; database < kDatabases; database++)
		{
			int here = 0;
			uint32_t told = 0;
			for (int batch = 0; batch < kBatches; batch++)
			{
				State state = table.state(database, batch);
				here += state != State::kNone;
				told += state == State::kTold;
			}
			EXPECT_EQ(table.used(database), here);
			EXPECT_EQ(table.told(database), told);
			EXPECT_LE(table.used(database), table.peak(database));
			used += here;
			common += std::max(0, here - own);
			/* a scheduler that sleeps has nothing to look at */
			if (!schedulers[database].awake)
			{
				EXPECT_EQ(told, 0u);
				EXPECT_FALSE(table.all(database));
			}
		}
		EXPECT_LE(used, table.capacity());
		EXPECT_EQ(common, table.common_used());
	}

	std::mt19937_64 random;
	int own;
	std::vector<BatchTable::Entry> entries;
	BatchTable::Database owners[kDatabases];
	BatchTable table;
	Batch batches[kDatabases][kBatches] = {};
	std::vector<BatchTold> callbacks[kDatabases];
	Scheduler schedulers[kDatabases] = {};
	int64_t last_id = 0;
};

TEST(BatchTableWalk, NoEndIsLost)
{
	const char *more = getenv("BATCH_WALKS");
	int walks = 20000 * (more != nullptr ? atoi(more) : 1);
	for (int seed = 1; seed <= walks && !testing::Test::HasFailure(); seed++)
	{
		SCOPED_TRACE("seed " + std::to_string(seed));
		Walk(seed).run(20 + seed % 200);
	}
}

} // namespace
