#include "worker/handler_list.h"

#include "catalog/queue_row.h"
#include "catalog/version.h"
#include "engine/hold.h"
#include "handlers/call.h"
#include "load/attach.h"

#include <algorithm>

namespace pgq {

bool
HandlerList::read(const Database *database)
{
	int n_rows;
	if (!extension_installed() || !version_served() || tables().database != database)
		return false;
	HandlerRow *rows = read_handlers(GetSessionUserId(), &n_rows);
	int64 here = n_rows > 0 ? stamp() : 0;
	auto *handlers = static_cast<ServedHandler *>(
		MemoryContextAllocZero(memory_, (n_rows + 1) * sizeof(ServedHandler)));
	int n = 0;
	/* Keep the handlers that may run now, with the names and slots of their queues. */
	for (int i = 0; i < n_rows; i++)
	{
		ServedHandler &handler = handlers[n];
		bool changed;
		handler.row = rows[i];
		if (handler.row.broken != nullptr || handler.row.paused ||
			!attach_queue_by_id(tables(), rows[i].queue_id, &handler.ref))
			continue;
		QueueName name;
		(void) read_name(handler.ref.queue, &name);
		strlcpy(handler.queue, name.text, sizeof(handler.queue));
		handler.fault = fault_of(&handler.row, handler.queue, here, &changed);
		n += !handler.fault.any();
	}
	if (handlers_ != nullptr)
		pfree(handlers_);
	handlers_ = handlers;
	n_ = n;
	return true;
}

bool
HandlerList::is_outdated(const Database *database) const
{
	return !known_ || faults_may_differ() || value_of(database->definition_changes) != changes_;
}

bool
HandlerList::refresh(const Database *database)
{
	if (!is_outdated(database))
		return true;
	/*
	 * Each change after this line makes the list outdated again. After an error the list stays
	 * unknown.
	 */
	known_ = false;
	changes_ = value_of(database->definition_changes);
	note_check_of_all();
	begin_handler_transaction(true);
	known_ = read(database);
	PopActiveSnapshot();
	CommitTransactionCommand();
	return known_;
}

ServedHandler *
HandlerList::find(int32 queue_id)
{
	for (int i = 0; i < n_; i++)
		if (handlers_[i].row.queue_id == queue_id)
			return &handlers_[i];
	return nullptr;
}

void
HandlerList::sort()
{
	for (int i = 0; i < n_; i++)
		(void) look_at_queue(handlers_[i].ref, [&](const Queue &queue) {
			handlers_[i].served_at = queue.handler.served_at;
		});
	std::sort(handlers_, handlers_ + n_, [](const ServedHandler &a, const ServedHandler &b) {
		return a.served_at != b.served_at ? a.served_at < b.served_at
										  : a.row.queue_id < b.row.queue_id;
	});
}

int64
HandlerList::longest_idle() const
{
	int64 longest = 0;
	for (int i = 0; i < n_; i++)
		longest = Max(longest, handlers_[i].row.idle);
	return longest;
}

} // namespace pgq
