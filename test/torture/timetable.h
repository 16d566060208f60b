/*
 * What the clients know of schedules: which job came for which tick. Guarded by the ledger's mutex,
 * since all depends on the ends of transactions.
 */
#pragma once

#include "ledger.h"

#include <string>
#include <vector>

namespace torture {

/* Microseconds since 1970, by the server's clock. */
using Moment = int64_t;

/* A schedule that nobody changes, though somebody says the same again now and then. */
struct StrictSchedule
{
	std::string name;
	std::string cron;
	Moment period; /* its multiples */
	std::string missed;
};

inline const std::vector<StrictSchedule> kStrictSchedules = {
	{"all", "every 2 s", 2 * kSecond, "all"},
	{"one", "*/3 * * * * *", 3 * kSecond, "one"},
	{"skip", "every 2 s", 2 * kSecond, "skip"},
};
/* Those that are paused, changed and dropped. */
inline const std::vector<std::string> kLooseSchedules = {"loose-1", "loose-2"};
inline const std::string kTickQueue = "ticks";
/* The payload of the jobs of ticks, which are in no other ledger. */
constexpr Key kTickKey = 0;

/* A job of a tick that was handed out. */
struct Ticked
{
	int64_t job_id;
	int64_t token;
	std::string schedule;
	Moment tick;
	Time enqueued_at; /* by our clock */
	Time claim_sent;
};

class Timetable
{
public:
	explicit Timetable(Ledger &ledger) : ledger(ledger) {}

	/* The strict ones were made between the two. */
	void begins(Moment from, Moment to);
	void handed_out(const Ticked &ticked, Epoch epoch);
	/* pgq_ack_many has answered: that transaction ends its job. */
	void acked(const Ticked &ticked, const TxRef &tx);
	/* The schedule will be there and not paused (active), or not. Before it is sent. */
	void changing(const std::string &schedule, const TxRef &tx, bool active);

	/* All rules, now and then. */
	void audit();

	/* ---- quiet points ---- */

	/* A tick of a strict schedule up to then that has no job yet; empty: none. */
	std::string missing(Moment until);
	/* That have a job for certain. */
	long ticks();

private:
	struct Sighting
	{
		int64_t job_id;
		Epoch epoch;
		Time enqueued_at;
		Time claim_sent;
		std::vector<TxRef> acks;
	};
	struct Change
	{
		TxRef tx;
		Time sent;
		bool active;
	};

	static TxRef certain_ack(const Sighting &sighting);
	void check_against_others(const std::string &what, const Sighting &one,
							  const std::vector<Sighting> &all);
	void check_pauses(const std::string &what, const Sighting &sighting,
					  const std::vector<Change> &changes);
	bool has_job(const std::string &schedule, Moment from, Moment until);

	Ledger &ledger;
	Moment first = 0;	 /* no tick is older */
	Moment all_from = 0; /* nor is any missing from here on */
	/* By schedule and tick. */
	std::map<std::string, std::map<Moment, std::vector<Sighting>>> seen;
	std::map<std::string, std::vector<Change>> changes;
};

} // namespace torture
