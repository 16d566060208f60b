/*
 * The table of batches that may get a callback, by database and batch. It saves the scheduler a look
 * at a batch after each end of a member. An entry proves nothing: the scheduler looks at the tables.
 *
 *     no entry --news--> TOLD --look--> LOOKING --look ends--> WAITS, OPEN or no entry
 *     LOOKING --news--> AGAIN --end of the look--> TOLD
 *     WAITS --end of the witness, or change--> TOLD        OPEN --change--> TOLD
 *
 * The rule that every function keeps: if something has happened to a batch since the last look at it
 * began, and the batch may get a callback by that, then the batch is TOLD or AGAIN, or all batches of
 * the database are to be looked at (`all`). An entry that WAITS names a member that the last look has
 * seen alive, the *witness*: as long as the witness lives the batch has not ended. An entry that is
 * OPEN waits for a change, such as the close.
 *
 * WAITS and OPEN entries may be given up for other batches, since without an entry everything is
 * news. The other entries are never given up; if there is no room for a batch, `all` is raised. A
 * database has entries of its own, and further ones from the common part. When the common part is
 * used up, a database that needs an entry takes one that WAITS or is OPEN: from a database that has
 * more entries than itself, otherwise one of its own. So the databases that need many entries get
 * equally many in the end.
 */
#pragma once

#include "core/relaxed.h"

#include <cassert>
#include <cstddef>
#include <cstdint>

namespace pgq {

/* The reason for telling the table of a batch. */
enum class BatchNews : uint8_t
{
	kEnd, /* a member has ended: news only if it is the witness, or if a look is under way */
	/* anything else, which always is news: a close, a cancel, a death, an undone enqueue */
	kChange,
};

/*
 * What one transaction tells of one batch: why, and for kEnd the smallest and greatest id of the
 * members that it has ended.
 */
struct BatchTold
{
	int64_t batch_id;
	BatchNews news;
	int64_t first;
	int64_t last;
};

/*
 * The table. Each database has a number, from 0 on. The caller holds a lock: shared for const
 * functions, exclusive for the others.
 */
class BatchTable
{
public:
	enum class State : uint8_t
	{
		kNone, /* no entry */
		kTold,
		kLooking,
		kAgain,
		kWaits,
		kOpen,
	};

	struct Entry
	{
		int64_t batch_id;
		int64_t witness; /* for WAITS: the member that has to end */
		int32_t database;
		/* head of the list of the bucket whose number is the index of this entry; -1: empty */
		int32_t bucket;
		int32_t next_in_bucket;
		int32_t before,
			after; /* in the line of the database; after: in the list of free entries, too */
		State state;
	};

	/* The entries of a database, in lines by their state, oldest first. */
	struct Line
	{
		int32_t first, last;
	};
	static constexpr int kLines = 3;
	struct Database
	{
		Line lines[kLines];
		int32_t used;
		int32_t peak;			/* highest value of `used` since init() */
		Relaxed<uint32_t> told; /* entries that are TOLD */
		Relaxed<bool> all;		/* all batches are to be looked at */
	};

	/* own: entries that each database can always have. common: entries for all databases together. */
	void init(Entry *entries, Database *databases, int n, int own, int common)
	{
		entries_ = entries;
		databases_ = databases;
		count_ = n;
		own_ = own;
		common_ = common;
		common_used_ = common_peak_ = 0;
		hand_ = 0;
		free_ = kNil;
		for (int i = capacity() - 1; i >= 0; i--)
		{
			entries_[i] = {};
			entries_[i].bucket = kNil;
			entries_[i].after = free_;
			free_ = i;
		}
		for (int i = 0; i < n; i++)
		{
			databases_[i] = {};
			for (Line &line : databases_[i].lines)
				line = {kNil, kNil};
		}
	}

	int capacity() const { return common_ + count_ * own_; }
	int used(int database) const { return databases_[database].used; }
	int peak(int database) const { return databases_[database].peak; }
	int common_used() const { return common_used_; }
	int common_peak() const { return common_peak_; }

	/* The functions told() and all() may be called without the lock. */
	uint32_t told(int database) const { return databases_[database].told; }
	bool all(int database) const { return databases_[database].all; }

	State state(int database, int64_t batch_id) const
	{
		int entry = find(database, batch_id);
		return entry == kNil ? State::kNone : entries_[entry].state;
	}

	/* ---- telling ---- */

	/* Return whether tell() would change the table. */
	bool is_news(int database, const BatchTold &told) const
	{
		int entry = find(database, told.batch_id);
		return entry == kNil || is_news_to(entries_[entry], told);
	}

	/*
	 * Note that something has happened to the batch. Returns true if the scheduler of the database
	 * had nothing to look at before, and now has.
	 */
	bool tell(int database, const BatchTold &told)
	{
		bool idle = is_idle(database);
		int entry = find(database, told.batch_id);
		if (entry != kNil && !is_news_to(entries_[entry], told))
			return false;
		if (entry == kNil)
			entry = make(database, told.batch_id);
		if (entry == kNil)
			databases_[database].all = true;
		else if (entries_[entry].state == State::kLooking)
			entries_[entry].state = State::kAgain;
		else
			set(entry, State::kTold);
		return idle && !is_idle(database);
	}

	/* Raise `all`: all batches of the database are to be looked at. Returns as tell() does. */
	bool tell_all(int database)
	{
		bool idle = is_idle(database);
		databases_[database].all = true;
		return idle;
	}

	/* ---- looking ---- */

	/* Return whether `all` is raised, and lower it. The caller then looks at all batches. */
	bool take_all(int database)
	{
		bool all = databases_[database].all;
		databases_[database].all = false;
		return all;
	}

	/* Begin a look at the batch that has been TOLD for longest. Returns false if there is none. */
	bool next_told(int database, int64_t *batch_id)
	{
		int entry = databases_[database].lines[kToldLine].first;
		if (entry == kNil)
			return false;
		set(entry, State::kLooking);
		*batch_id = entries_[entry].batch_id;
		return true;
	}

	/* Begin a look at this batch. Does nothing if there is no room for an entry. */
	void begin_look(int database, int64_t batch_id)
	{
		int entry = find(database, batch_id);
		if (entry == kNil)
			entry = make(database, batch_id);
		if (entry != kNil)
			set(entry, State::kLooking);
	}

	/*
	 * End a look. `to`: kWaits for this witness, kOpen, or kNone. If the table was told of the
	 * batch since the look began, the batch becomes TOLD instead. If the look had no entry, tell()
	 * has made an entry, which stays TOLD.
	 */
	void end_look(int database, int64_t batch_id, State to, int64_t witness = 0)
	{
		int entry = find(database, batch_id);
		if (entry == kNil)
			return;
		State from = entries_[entry].state;
		if (from == State::kAgain)
			set(entry, State::kTold);
		else if (from == State::kLooking && to == State::kNone)
			free(entry);
		else if (from == State::kLooking)
		{
			entries_[entry].witness = witness;
			set(entry, to);
		}
	}

	/* Make the batch TOLD again, because the look is to be repeated later. */
	void put_back(int database, int64_t batch_id)
	{
		int entry = find(database, batch_id);
		if (entry == kNil)
			entry = make(database, batch_id);
		if (entry == kNil)
			databases_[database].all = true;
		else
			set(entry, State::kTold);
	}

	/* ---- entries that wait ---- */

	/*
	 * Find the first entry of the database that WAITS, from *position on, among at most `most` entries.
	 * Moves *position behind the entries that were visited. Returns the entry, or NULL.
	 */
	const Entry *next_awaited(int database, int *position, int most) const
	{
		for (int n = 0; n < most && *position < capacity(); n++)
		{
			const Entry &entry = entries_[(*position)++];
			if (entry.state == State::kWaits && entry.database == database)
				return &entry;
		}
		return nullptr;
	}

	/* Make the batch TOLD if it waits for this witness. Returns whether the batch was changed. */
	bool repair(int database, int64_t batch_id, int64_t witness)
	{
		int entry = find(database, batch_id);
		if (entry == kNil || entries_[entry].state != State::kWaits ||
			entries_[entry].witness != witness)
			return false;
		set(entry, State::kTold);
		return true;
	}

	/* ---- the end ---- */

	/*
	 * Free at most `most` entries of the database. Returns whether the database has more entries.
	 */
	bool drop(int database, int most)
	{
		for (Line &line : databases_[database].lines)
			for (; most > 0 && line.first != kNil; most--)
				free(line.first);
		return databases_[database].used > 0;
	}

private:
	static constexpr int32_t kNil = -1;
	static constexpr int kToldLine = 0, kLookLine = 1, kIdleLine = 2;
	/* greatest number of databases that are searched for an entry to give up */
	static constexpr int kProbes = 16;

	static int line_of(State state)
	{
		return state == State::kTold								? kToldLine
			   : state == State::kLooking || state == State::kAgain ? kLookLine
																	: kIdleLine;
	}

	static bool is_news_to(const Entry &entry, const BatchTold &told)
	{
		switch (entry.state)
		{
			case State::kLooking:
				return true;
			case State::kWaits:
				return told.news == BatchNews::kChange ||
					   (told.first <= entry.witness && entry.witness <= told.last);
			case State::kOpen:
				return told.news == BatchNews::kChange;
			default: /* The look that is still to come sees what has happened. */
				return false;
		}
	}

	bool is_idle(int database) const
	{
		return !databases_[database].all && databases_[database].told == 0;
	}

	int32_t bucket_of(int database, int64_t batch_id) const
	{
		uint64_t hash = (static_cast<uint64_t>(batch_id) + static_cast<uint64_t>(database)) *
						UINT64_C(0x9E3779B97F4A7C15);
		return static_cast<int32_t>((hash >> 32) % static_cast<uint64_t>(capacity()));
	}

	int32_t find(int database, int64_t batch_id) const
	{
		int32_t i = entries_[bucket_of(database, batch_id)].bucket;
		while (i != kNil && (entries_[i].batch_id != batch_id || entries_[i].database != database))
			i = entries_[i].next_in_bucket;
		return i;
	}

	/* ---- lines ---- */

	void leave_line(int32_t i)
	{
		Entry &entry = entries_[i];
		Database &database = databases_[entry.database];
		Line &line = database.lines[line_of(entry.state)];
		(entry.before == kNil ? line.first : entries_[entry.before].after) = entry.after;
		(entry.after == kNil ? line.last : entries_[entry.after].before) = entry.before;
		if (entry.state == State::kTold)
			database.told = database.told - 1;
	}

	void join_line(int32_t i, State state)
	{
		Entry &entry = entries_[i];
		Database &database = databases_[entry.database];
		Line &line = database.lines[line_of(state)];
		entry.state = state;
		entry.before = line.last;
		entry.after = kNil;
		(line.last == kNil ? line.first : entries_[line.last].after) = i;
		line.last = i;
		if (state == State::kTold)
			database.told = database.told + 1;
	}

	void set(int32_t i, State state)
	{
		leave_line(i);
		join_line(i, state);
	}

	/* ---- room ---- */

	bool may_have_more(const Database &database) const
	{
		return database.used < own_ || common_used_ < common_;
	}

	/*
	 * Make room by giving up an entry that WAITS or is OPEN. Returns false if there is none that this
	 * database may have.
	 */
	bool make_room(int database)
	{
		int idle = databases_[database].lines[kIdleLine].first;
		for (int n = 0; n < kProbes && n < count_; n++)
		{
			hand_ = (hand_ + 1) % count_;
			const Database &other = databases_[hand_];
			if (other.used > databases_[database].used && other.lines[kIdleLine].first != kNil)
			{
				free(other.lines[kIdleLine].first);
				return true;
			}
		}
		if (idle == kNil)
			return false;
		free(idle);
		return true;
	}

	/* Make an entry, which is TOLD. Returns kNil if there is no room. */
	int32_t make(int database, int64_t batch_id)
	{
		Database &owner = databases_[database];
		if (!may_have_more(owner) && !make_room(database))
			return kNil;
		assert(may_have_more(owner) && free_ != kNil);
		if (owner.used >= own_)
			common_peak_ = common_peak_ > ++common_used_ ? common_peak_ : common_used_;
		owner.peak = owner.peak > ++owner.used ? owner.peak : owner.used;
		int32_t i = free_;
		Entry &entry = entries_[i];
		free_ = entry.after;
		entry.batch_id = batch_id;
		entry.database = database;
		int32_t *bucket = &entries_[bucket_of(database, batch_id)].bucket;
		entry.next_in_bucket = *bucket;
		*bucket = i;
		join_line(i, State::kTold);
		return i;
	}

	void free(int32_t i)
	{
		Entry &entry = entries_[i];
		Database &owner = databases_[entry.database];
		leave_line(i);
		int32_t *link = &entries_[bucket_of(entry.database, entry.batch_id)].bucket;
		while (*link != i)
			link = &entries_[*link].next_in_bucket;
		*link = entry.next_in_bucket;
		if (owner.used-- > own_)
			common_used_--;
		entry.state = State::kNone;
		entry.after = free_;
		free_ = i;
	}

	Entry *entries_;
	Database *databases_;
	int count_; /* number of databases */
	int own_;
	int common_;
	int common_used_;
	int common_peak_;
	int hand_; /* number of the database that was last searched for an entry to give up */
	int32_t free_;
};

} // namespace pgq
