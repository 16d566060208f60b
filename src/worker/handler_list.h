/* The handlers that a worker serves: those of its role in its database. */
#pragma once

#include "handlers/check.h"

namespace pgq {

struct ServedHandler
{
	HandlerRow row;
	QueueRef ref;
	char queue[kQueueNameMax + 1];
	Fault fault;
	int64 served_at; /* monotonic: when any worker last took a place at the queue; 0: never */
};

class HandlerList
{
public:
	/* Where the list is kept. */
	void init(MemoryContext memory) { memory_ = memory; }

	/*
	 * Return whether the list must be read again, because a handler, a function, a role or a right
	 * may have changed. Messages about changes of functions, roles and rights reach this process
	 * when it begins a transaction, and not earlier.
	 */
	bool is_outdated(const Database *database) const;

	/*
	 * Read the handlers again if the list is outdated. Returns false if this process cannot serve
	 * any queue: the extension is gone, or is of a version that the library does not serve.
	 */
	bool refresh(const Database *database);

	/* Return the handler of that queue; NULL: none that may run. */
	ServedHandler *find(int32 queue_id);

	/* Read the handlers again at the next refresh(). */
	void doubt() { known_ = false; }

	int size() const { return n_; }
	ServedHandler &operator[](int i) { return handlers_[i]; }

	/* Sort the handlers: the queue that was served longest ago comes first. */
	void sort();

	/* Return the longest `idle` of the handlers that can run. */
	int64 longest_idle() const;

private:
	bool read(const Database *database);

	MemoryContext memory_ = nullptr;
	ServedHandler *handlers_ = nullptr;
	int n_ = 0;
	bool known_ = false;
	uint32 changes_ = 0; /* value of Database::definition_changes when the list was read */
};

} // namespace pgq
