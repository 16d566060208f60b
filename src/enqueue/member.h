/*
 * Adding members to batches. A session takes the tag of the batch, reads the state of the batch,
 * inserts the jobs, and releases the tag (README of batches/, "How a member is added").
 */
#pragma once

#include "rows/batch_note.h"
#include "rows/batch_row.h"
#include "rows/insert.h"

namespace pgq {

/*
 * Members that one call has added, gathered so that the call writes one note for each batch. The
 * memory is of the context that is current when the object is made.
 */
class AddedMembers
{
public:
	AddedMembers() : memory_(CurrentMemoryContext) {}

	void add(int64 batch_id, int64 jobs);
	/* Write the notes. */
	void note();

private:
	MemoryContext memory_;
	NewNote *notes_ = nullptr;
	int n_ = 0;
	int size_ = 0;
};

/* Raise 55000 unless the tables have the column batch_id. */
void require_batch_columns();

/*
 * Return the newest state of the batch. Raises 42704 if there is no such batch, or if the current
 * role may not use it: a role without the right must not learn which batches exist.
 */
BatchRow require_batch(int64 batch_id);

/*
 * Like require_batch(), for a role that adds a member. A transaction that has a member of the batch
 * in hand may do so without the right.
 */
BatchRow require_batch_to_add(int64 batch_id);

/* The batches of jobs that are inserted together. */
class Members
{
public:
	/* Count the members among the jobs. Costs nothing else if there are none. */
	Members(const NewJob *jobs, int n);

	/*
	 * Call this before the jobs are inserted. If this session has seen last that a batch is open, leaves
	 * the check to confirm(). Otherwise takes the tag, and checks the batch. Takes tags in ascending
	 * order of the ids. Raises 42704, 55000.
	 */
	void join()
	{
		if (n_ > 0)
			join_all();
	}
	/*
	 * Call this when the rows of the jobs and their index entries are in. Releases the tags. Checks the
	 * batches that join() has not checked; raises 42704, 55000.
	 */
	void confirm() const
	{
		if (n_ > 0)
			confirm_all();
	}
	/* Write a note for each batch, or leave that to `added`. */
	void note(AddedMembers *added) const
	{
		if (n_ > 0)
			note_all(added);
	}

private:
	struct Joined
	{
		int64 batch_id;
		int64 jobs;
		bool tagged; /* join() has taken the tag */
	};

	void add(int64 batch_id, int room);
	void join_all();
	void confirm_all() const;
	void note_all(AddedMembers *added) const;

	Joined *batches_ = nullptr;
	int n_ = 0;
};

} // namespace pgq
