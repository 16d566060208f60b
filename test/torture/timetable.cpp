/*
 * The rules of schedules.
 */
#include "timetable.h"

#include <algorithm>

namespace torture {

static const StrictSchedule *
strict(const std::string &name)
{
	for (const StrictSchedule &schedule : kStrictSchedules)
		if (schedule.name == name)
			return &schedule;
	return nullptr;
}

/* ---- what happens ---- */

void
Timetable::begins(Moment from, Moment to)
{
	std::lock_guard lock(ledger.mutex);
	first = from;
	all_from = to;
}

void
Timetable::handed_out(const Ticked &ticked, Epoch epoch)
{
	std::lock_guard lock(ledger.mutex);
	std::string what =
		"tick " + std::to_string(ticked.tick / kMillisecond) + " ms of " + ticked.schedule;
	if (ticked.tick > wall() + clock_margin())
		ledger.breach(what + " came before its time", nullptr);
	const StrictSchedule *schedule = strict(ticked.schedule);
	if (schedule != nullptr &&
		(ticked.tick % schedule->period != 0 || ticked.tick < first - clock_margin()))
		ledger.breach(what + " is none", nullptr);

	std::vector<Sighting> &sightings = seen[ticked.schedule][ticked.tick];
	for (Sighting &before : sightings)
		if (before.job_id == ticked.job_id && before.epoch.server == epoch.server)
		{
			TxRef ack = certain_ack(before);
			if (ack && ack->committed_at < ticked.claim_sent)
				ledger.breach(what + " is handed out again, job " + std::to_string(ticked.job_id),
							  nullptr);
			return;
		}
	sightings.push_back({ticked.job_id, epoch, ticked.enqueued_at, ticked.claim_sent, {}});
	check_against_others(what, sightings.back(), sightings);
}

void
Timetable::acked(const Ticked &ticked, const TxRef &tx)
{
	std::lock_guard lock(ledger.mutex);
	for (Sighting &sighting : seen[ticked.schedule][ticked.tick])
		if (sighting.job_id == ticked.job_id && sighting.epoch.server == tx->epoch.server)
			sighting.acks.push_back(tx);
}

void
Timetable::changing(const std::string &schedule, const TxRef &tx, bool active)
{
	std::lock_guard lock(ledger.mutex);
	changes[schedule].push_back({tx, now(), active});
}

/* ---- the rules ---- */

TxRef
Timetable::certain_ack(const Sighting &sighting)
{
	for (const TxRef &tx : sighting.acks)
		if (tx->state == TxState::kCommitted)
			return tx;
	return nullptr;
}

/*
 * Check for two jobs of one tick. The scheduler's commit does not wait for the standby. So a
 * failover may lose a tick's job, which is then enqueued anew, unless a later commit that waited
 * for the standby shows that the first job was not lost.
 */
void
Timetable::check_against_others(const std::string &what, const Sighting &one,
								const std::vector<Sighting> &all)
{
	for (const Sighting &other : all)
	{
		if (other.job_id == one.job_id)
			continue;
		bool durable = certain_ack(other) && other.epoch.server < one.epoch.server;
		if (other.epoch.server == one.epoch.server || durable ||
			(certain_ack(other) && certain_ack(one)))
			ledger.breach(what + " has two jobs: " + std::to_string(one.job_id) + " and " +
							  std::to_string(other.job_id),
						  nullptr);
	}
}

/* Check that a job was not enqueued while its schedule was certainly paused or did not exist. */
void
Timetable::check_pauses(const std::string &what, const Sighting &sighting,
						const std::vector<Change> &changes)
{
	for (size_t i = 0; i < changes.size(); i++)
	{
		const Change &off = changes[i];
		if (off.active || off.tx->state != TxState::kCommitted ||
			sighting.enqueued_at <= off.tx->committed_at + clock_margin())
			continue;
		/* A change that was sent earlier may take effect later, if its transaction was prepared. */
		bool on = std::any_of(changes.begin(), changes.end(), [&](const Change &change) {
			bool counts = change.tx->state != TxState::kAborted || change.tx->resolved_on != 0;
			bool before =
				change.tx->state == TxState::kCommitted && change.tx->committed_at < off.sent;
			return change.active && counts && !before &&
				   sighting.enqueued_at >= change.sent - clock_margin();
		});
		if (!on)
			ledger.breach(what + " was enqueued while it was paused, or not there: job " +
							  std::to_string(sighting.job_id),
						  nullptr);
	}
}

void
Timetable::audit()
{
	std::lock_guard lock(ledger.mutex);
	for (const auto &[schedule, ticks] : seen)
		for (const auto &[tick, sightings] : ticks)
			for (const Sighting &sighting : sightings)
			{
				std::string what =
					"tick " + std::to_string(tick / kMillisecond) + " ms of " + schedule;
				check_against_others(what, sighting, sightings);
				check_pauses(what, sighting, changes[schedule]);
			}
}

bool
Timetable::has_job(const std::string &schedule, Moment from, Moment until)
{
	std::map<Moment, std::vector<Sighting>> &ticks = seen[schedule];
	return std::any_of(ticks.lower_bound(from), ticks.upper_bound(until), [](const auto &tick) {
		return std::any_of(tick.second.begin(), tick.second.end(), [](const Sighting &sighting) {
			return certain_ack(sighting) != nullptr;
		});
	});
}

/*
 * Return a tick that must have a job and has none. If all missed ticks of a schedule are made up
 * for, each tick must have one. Otherwise the newest tick must have one, or a later tick.
 */
std::string
Timetable::missing(Moment until)
{
	std::lock_guard lock(ledger.mutex);
	for (const StrictSchedule &schedule : kStrictSchedules)
	{
		Moment last = until / schedule.period * schedule.period;
		Moment from = (all_from / schedule.period + 1) * schedule.period;
		if (last < from)
			continue;
		if (schedule.missed != "all" && !has_job(schedule.name, last, INT64_MAX))
			return schedule.name + " " + std::to_string(last / kMillisecond) + " ms or later";
		if (schedule.missed == "all")
			for (Moment tick = from; tick <= last; tick += schedule.period)
				if (!has_job(schedule.name, tick, tick))
					return schedule.name + " " + std::to_string(tick / kMillisecond) + " ms";
	}
	return "";
}

long
Timetable::ticks()
{
	std::lock_guard lock(ledger.mutex);
	long n = 0;
	for (const auto &[schedule, ticks] : seen)
		for (const auto &[tick, sightings] : ticks)
			n += std::any_of(sightings.begin(), sightings.end(),
							 [](const Sighting &s) { return certain_ack(s) != nullptr; });
	return n;
}

} // namespace torture
