/*
 * What the clients know of schedules: which job was enqueued for which tick. Protected by the
 * ledger's mutex, since everything depends on the ends of transactions.
 */
#pragma once

#include "ledger.h"

#include <string>
#include <vector>

namespace torture {

/* Microseconds since 1970, by the server's clock. */
using Moment = int64_t;

/* A schedule that is never changed, though actors repeat it unchanged. */
struct StrictSchedule
{
	std::string name;
	std::string cron;
	Moment period; /* in microseconds; the ticks are its multiples */
	std::string missed;
};

inline const std::vector<StrictSchedule> kStrictSchedules = {
	{"all", "every 2 s", 2 * kSecond, "all"},
	{"one", "*/3 * * * * *", 3 * kSecond, "one"},
	{"skip", "every 2 s", 2 * kSecond, "skip"},
};
/* Schedules that are paused, changed and dropped. */
inline const std::vector<std::string> kLooseSchedules = {"loose-1", "loose-2"};
inline const std::string kTickQueue = "ticks";
/* The payload of jobs of ticks. The ledger of jobs does not know these jobs. */
constexpr Key kTickKey = 0;

/* A job of a tick that was handed out. */
struct Ticked
{
	int64_t job_id;
	int64_t token;
	std::string schedule;
	Moment tick;
	Time enqueued_at; /* by the wall clock of the server */
	Time claim_sent;
};

class Timetable
{
public:
	explicit Timetable(Ledger &ledger) : ledger(ledger) {}

	/* The strict schedules were made at a time between the two. */
	void begins(Moment from, Moment to);
	void handed_out(const Ticked &ticked, Epoch epoch);
	/* Note that pgq_ack_many has succeeded: the transaction ends the job. */
	void acked(const Ticked &ticked, const TxRef &tx);
	/*
	 * Note that the schedule is about to become active (it exists and is not paused), or not. Call
	 * before the statement is sent.
	 */
	void changing(const std::string &schedule, const TxRef &tx, bool active);

	/* Check all rules. Called from time to time. */
	void audit();

	/* ---- quiet points ---- */

	/*
	 * Return a tick of a strict schedule, up to `until`, that has no job yet; empty: there is none.
	 */
	std::string missing(Moment until);
	/* Return the number of ticks that certainly have a job. */
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
	Moment first = 0;	 /* there are no ticks before this time */
	Moment all_from = 0; /* from this time on, no tick may be missing */
	/* The jobs that were seen, by schedule and tick. */
	std::map<std::string, std::map<Moment, std::vector<Sighting>>> seen;
	std::map<std::string, std::vector<Change>> changes;
};

} // namespace torture
