/*
 * The line for the slots of handlers' workers.
 *
 * If no slot is free for a role, the scheduler of the role's database leaves a *ticket*. A ticket
 * that its scheduler has not renewed for 5 s is void. A free slot goes to the tickets of roles that
 * have no worker first, and among those to the oldest.
 *
 * Needs no server header and takes no lock. Times are monotonic, in microseconds.
 */
#pragma once

#include <cstdint>

namespace pgq {

struct HandlerTicket
{
	uint32_t database; /* OID; 0: the entry is free */
	uint32_t role;
	uint64_t number;
	int64_t renewed;
};

/* A view of the tickets, which are in an array of the caller. */
class HandlerTickets
{
public:
	/* drawn: the number of the last ticket */
	HandlerTickets(HandlerTicket *tickets, int n, uint64_t *drawn)
		: tickets_(tickets), n_(n), drawn_(drawn)
	{}

	/* Renew the ticket of the role. If the role has none, draw a ticket. */
	void keep(uint32_t database, uint32_t role, int64_t now)
	{
		HandlerTicket *ticket = find(database, role, now);
		HandlerTicket *entry = ticket != nullptr ? ticket : free_entry(now);
		if (entry == nullptr)
			return;
		if (ticket == nullptr)
			*entry = {database, role, ++*drawn_, now};
		entry->renewed = now;
	}

	/* Remove the ticket of the role, which has got a slot. */
	void remove(uint32_t database, uint32_t role, int64_t now)
	{
		if (HandlerTicket *ticket = find(database, role, now))
			ticket->database = 0;
	}

	/*
	 * Remove the tickets of the database that were not renewed since then. Returns how many it has
	 * removed; *left: how many the database still has.
	 */
	int remove_older(uint32_t database, int64_t then, int *left)
	{
		int removed = 0;
		*left = 0;
		for (int i = 0; i < n_; i++)
		{
			if (tickets_[i].database != database)
				continue;
			bool old = tickets_[i].renewed < then;
			removed += old;
			*left += !old;
			if (old)
				tickets_[i].database = 0;
		}
		return removed;
	}

	/* Return whether any role waits. */
	bool any_waits(int64_t now) const { return another_waits(0, 0, now); }

	/* Return whether a role other than this one waits. */
	bool another_waits(uint32_t database, uint32_t role, int64_t now) const
	{
		for (int i = 0; i < n_; i++)
			if (is_valid(tickets_[i], now) && !is_of(tickets_[i], database, role))
				return true;
		return false;
	}

	/*
	 * Return whether another role that waits goes before this role. has_worker(database, role)
	 * returns whether that role has a worker.
	 */
	template <typename HasWorker>
	bool another_goes_first(uint32_t database, uint32_t role, int64_t now,
							HasWorker has_worker) const
	{
		const HandlerTicket *own = find(database, role, now);
		bool has = has_worker(database, role);
		for (int i = 0; i < n_; i++)
		{
			const HandlerTicket &ticket = tickets_[i];
			if (!is_valid(ticket, now) || is_of(ticket, database, role))
				continue;
			bool other_has = has_worker(ticket.database, ticket.role);
			bool is_older = own == nullptr || ticket.number < own->number;
			if (other_has != has ? has : is_older)
				return true;
		}
		return false;
	}

	static constexpr int64_t kVoidAfter = 5 * 1000 * 1000;

private:
	static bool is_valid(const HandlerTicket &ticket, int64_t now)
	{
		return ticket.database != 0 && now - ticket.renewed < kVoidAfter;
	}
	static bool is_of(const HandlerTicket &ticket, uint32_t database, uint32_t role)
	{
		return ticket.database == database && ticket.role == role;
	}
	HandlerTicket *find(uint32_t database, uint32_t role, int64_t now) const
	{
		for (int i = 0; i < n_; i++)
			if (is_valid(tickets_[i], now) && is_of(tickets_[i], database, role))
				return &tickets_[i];
		return nullptr;
	}
	HandlerTicket *free_entry(int64_t now) const
	{
		for (int i = 0; i < n_; i++)
			if (!is_valid(tickets_[i], now))
				return &tickets_[i];
		return nullptr;
	}

	HandlerTicket *tickets_;
	int n_;
	uint64_t *drawn_;
};

} // namespace pgq
