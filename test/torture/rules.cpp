/* The rules that hand-outs and ends must obey, as far as the facts are certain. */
#include "ledger.h"

#include <algorithm>

namespace torture {

/*
 * After this time without a scheduler, lost jobs are handed out uncounted
 * (protocol: uncounted-without-scheduler).
 */
static constexpr Time kSchedulerPatience = 5 * kSecond;
/* For how long a scheduler that was killed may be missing. */
static constexpr Time kSchedulerAbsence = 60 * kSecond;

/* ---- a hand-out ---- */

/* A job that is handed out must be committed, and must not have ended. */
void
Ledger::check_existence(Job *job, const HandOut &h)
{
	const Tx &creator = *job->creator;
	bool other_truth = creator.resolved_on != 0 && h.epoch.server < creator.resolved_on;
	if ((job->undone && !other_truth) || creator.state == TxState::kOpen ||
		creator.state == TxState::kPrepared)
		breach("handed out, but its enqueue is not committed", job);
	if (!job->ended || job->revivers > 0)
		return;
	bool by_lease = job->end == Deed::kAck || job->end == Deed::kBury;
	if (by_lease ? h.token > job->end_token && h.epoch >= job->end_epoch : h.sent > job->ended_at)
		breach(std::string("handed out after its end: ") + name_of(job->end), job);
}

/* No other worker may certainly hold the job when the later lease is handed out. */
void
Ledger::check_not_held(Job *job, const HandOut &later)
{
	for (const auto &[token, h] : job->hand_outs)
	{
		if (token >= later.token)
			break;
		bool same_memory = h.epoch == later.epoch;
		if (h.ender && h.ender->state == TxState::kPrepared && later.epoch >= h.ender->epoch)
			breach("handed out while a prepared transaction ends lease " + std::to_string(token),
				   job);
		if (h.state == HandOut::State::kOpen && h.claimer->state == TxState::kPrepared &&
			same_memory)
			breach("handed out while a prepared transaction holds lease " + std::to_string(token),
				   job);
		if (h.state == HandOut::State::kHeld && !h.ender && same_memory && later.received < h.until)
			breach("handed out while lease " + std::to_string(token) + " runs", job);
	}
}

/*
 * Return whether the job of h was certainly in work, in the same server memory, during the whole
 * call that handed out `later`.
 */
bool
Ledger::runs_beside(const HandOut &h, const HandOut &later)
{
	if (h.epoch != later.epoch || h.received >= later.sent)
		return false;
	if (h.ender)
		return h.in_time && h.ender->state == TxState::kPrepared;
	if (h.state == HandOut::State::kOpen)
		return h.claimer->state == TxState::kPrepared;
	return h.state == HandOut::State::kHeld && later.received < h.until;
}

/*
 * Return whether the job may have ended: a transaction may have ended it, or the scheduler, since
 * its attempts are used up.
 */
bool
Ledger::may_have_ended(const Job &job)
{
	if (job.ended || job.undone || job.deleters > 0 || job.touched || may_have_expired(job) ||
		hidden_claims(job.queue, job.visible_at, now()) > 0)
		return true;
	return std::any_of(job.hand_outs.begin(), job.hand_outs.end(), [](const auto &entry) {
		const HandOut &h = entry.second;
		return h.ender || h.attempt >= h.max_attempts;
	});
}

int
Ledger::hidden_claims(const std::string &queue, Time from, Time to)
{
	return static_cast<int>(
		std::count_if(hidden[queue].begin(), hidden[queue].end(), [&](const Hidden &claim) {
			return claim.failed >= from && claim.sent <= to;
		}));
}

/* Return whether a claim without an answer may have handed out jobs of the queue unseen. */
bool
Ledger::broken_claims(const std::string &queue, Time from, Time to)
{
	return std::any_of(hidden[queue].begin(), hidden[queue].end(), [&](const Hidden &claim) {
		return claim.broken && claim.failed >= from && claim.sent <= to;
	});
}

/* Return whether a claim of the queue was refused then. It may have looked at jobs before. */
bool
Ledger::refused_claims(const std::string &queue, Time from, Time to)
{
	return std::any_of(refusals[queue].begin(), refusals[queue].end(), [&](const Hidden &claim) {
		return claim.failed >= from && claim.sent <= to;
	});
}

bool
Ledger::scheduler_excused(const HandOut &before, const HandOut &after)
{
	return after.received - before.received >= kSchedulerPatience &&
		   (scheduler_missing || after.received - scheduler_disturbed_at < kSchedulerAbsence);
}

/*
 * Check the number of the attempt: one more than that of the attempt before, even if that was lost.
 * It may be the same if memory was lost with the lease, or if the scheduler was missing. It may be
 * greater only if claims failed whose hand-outs were not seen; that is checked when all claims are
 * answered.
 */
void
Ledger::check_attempt(Job *job, const HandOut &h)
{
	if (h.attempt < 1 || h.attempt > h.max_attempts)
		breach("attempt " + std::to_string(h.attempt) + " of " + std::to_string(h.max_attempts),
			   job);
	auto it = job->hand_outs.find(h.token);
	if (it == job->hand_outs.begin())
	{
		if (h.attempt > 1)
			suspects.emplace_back(job->key, h.token);
		return;
	}
	const HandOut &before = std::prev(it)->second;
	if (before.token <= job->revived_token)
	{
		if (h.attempt > 1)
			suspects.emplace_back(job->key, h.token);
		return;
	}
	if (h.attempt > before.attempt + 1)
		suspects.emplace_back(job->key, h.token);
	bool uncounted = before.epoch != h.epoch || scheduler_excused(before, h);
	int least = before.attempt + (before.failed || !uncounted ? 1 : 0);
	if (before.released || before.releasing)
		least = before.attempt;
	/* The row that the scheduler wrote may not have reached the standby. */
	if (before.epoch.server != h.epoch.server)
		least = 1;
	if (h.attempt < least)
		breach("attempt " + std::to_string(h.attempt) + " after attempt " +
				   std::to_string(before.attempt),
			   job);
}

void
Ledger::check_suspects()
{
	for (const auto &[key, token] : suspects)
	{
		Job *job = find(key);
		auto it = job->hand_outs.find(token);
		const HandOut &h = it->second;
		int before = 0;
		Time since = 0;
		if (it != job->hand_outs.begin())
		{
			const HandOut &last = std::prev(it)->second;
			before = last.token <= job->revived_token ? 0 : last.attempt;
			since = last.sent;
		}
		int unseen = hidden_claims(job->queue, since, h.received);
		if (h.attempt > before + 1 + unseen)
			breach("attempt " + std::to_string(h.attempt) + " after attempt " +
					   std::to_string(before) + ", and only " + std::to_string(unseen) +
					   " claims failed",
				   job);
	}
	suspects.clear();
}

/* ---- no hand-out ---- */

/* Check a claim that found nothing: no job may have been waiting and due. */
void
Ledger::check_empty(const ClaimCall &call)
{
	for (Key key : live)
	{
		const Job &job = *find(key);
		bool asked =
			std::find(call.queues.begin(), call.queues.end(), job.queue) != call.queues.end();
		/*
		 * Skip jobs that may be held back by a limit, the rate of their group, or a transaction
		 * that holds their unique key.
		 */
		asked &= job.queue != kLimitedQueue && job.queue != kRatedQueue &&
				 job.queue != kKeyedQueue && !may_have_expired(job);
		if (!asked || !job.hand_outs.empty() || job.touched || job.deleters > 0 ||
			job.visible_at >= call.sent || job.due_by >= call.sent - clock_margin() ||
			(job.group != 0 && may_wait_for_time(job.queue, call.sent, now())))
			continue;
		bool limited = job.group != 0 && greatest_room(job.queue, call.sent, now()) < INT_MAX;
		missed.push_back({key, call.sent, now(), limited});
	}
}

/*
 * When all claims are answered: check that each missed job was in work by another claim at that
 * time.
 */
void
Ledger::check_missed()
{
	for (const Missed &m : missed)
	{
		Job *job = find(m.key);
		bool handed_out =
			!job->hand_outs.empty() && job->hand_outs.begin()->second.sent <= m.answered;
		if (handed_out || job->touched ||
			hidden_claims(job->queue, m.sent - kSetAside, m.answered) > 0 ||
			refused_claims(job->queue, m.sent, m.answered) ||
			temporary_queues.contains(job->queue) || (m.limited && may_be_held_back(*job, m)))
			continue;
		breach("a claim found nothing, asked at " + std::to_string((m.sent - start) / 1000) +
				   " ms, answered at " + std::to_string((m.answered - start) / 1000) + " ms",
			   job);
	}
	missed.clear();
}

/* ---- an end ---- */

/*
 * Return whether the memory `to` may have the leases of the memory `from`. A fast stop saves them, and
 * the next memory restores them. If the server crashes before any job is handed out from that memory, the
 * memory after the crash restores them again.
 */
bool
Ledger::carried_over(Epoch from, Epoch to) const
{
	while (to > from)
	{
		auto it = memories.lower_bound(to);
		if (it == memories.begin() || (--it)->server != to.server)
			return false;
		/* A memory that ended before any connection saw it is not among `memories`. */
		bool saved = std::any_of(fast_restarts.begin(), fast_restarts.end(), [&](const auto &stop) {
			return stop.first + clock_margin() >= it->start &&
				   stop.first - clock_margin() <= to.start;
		});
		if (!saved && (*it == from || claimed_in.contains(*it)))
			return false;
		to = *it;
	}
	return to == from;
}

/*
 * Check that a lease which was accepted was current: no later one may have been known when it was
 * used. A lease of an earlier memory may be used if it was saved. If it was not saved, only an ack
 * may use it, and only if no later lease has left a trace in the row.
 */
void
Ledger::check_newest(Job *job, const HandOut &used, Deed deed, Epoch epoch, Time sent)
{
	bool late = used.epoch != epoch;
	late_ack_count += late;
	std::string what = std::string(name_of(deed)) + " with lease " + std::to_string(used.token);
	if (late && deed != Deed::kAck && !carried_over(used.epoch, epoch))
		breach(what + " of a former memory was accepted", job);
	if (job->ended && job->revivers == 0 && job->ended_at < sent &&
		!explains(*job, deed, used.token))
		breach(what + " was accepted after its end: " + name_of(job->end), job);
	if (job->revived_at != 0 && job->revived_at < sent && used.token <= job->revived_token)
		breach(what + " of a former life was accepted", job);
	for (auto it = job->hand_outs.upper_bound(used.token); it != job->hand_outs.end(); ++it)
	{
		const HandOut &later = it->second;
		if (later.received >= sent)
			continue;
		bool left_trace = later.failed || later.released ||
						  (later.attempt > used.attempt && later.epoch.server == epoch.server) ||
						  (later.epoch == epoch && now() - later.received < kSchedulerPatience);
		if (!late || left_trace)
			breach(what + " was accepted after lease " + std::to_string(later.token) +
					   " was handed out",
				   job);
	}
}

/*
 * At the commit of an end: check that no later lease was handed out while the transaction had the
 * lease.
 */
void
Ledger::check_end(Job *job, const HandOut &ended, const TxRef &tx, Deed deed)
{
	for (auto it = job->hand_outs.upper_bound(ended.token); it != job->hand_outs.end(); ++it)
	{
		const HandOut &later = it->second;
		if (ended.token <= job->revived_token && later.token > job->revived_token)
			break;
		bool gone = deed == Deed::kAck || deed == Deed::kBury;
		bool during = later.epoch == tx->epoch && (gone || later.received < tx->ending_sent) &&
					  ended.epoch == tx->epoch;
		bool after = gone && later.epoch > tx->epoch;
		if (during || after)
			breach(std::string(name_of(deed)) + " with lease " + std::to_string(ended.token) +
					   " is committed, but lease " + std::to_string(later.token) +
					   " was handed out",
				   job);
	}
}

/* Check a refused call: a lease that is certainly current may not be refused. */
void
Ledger::check_refusal(Job *job, const HandOut &h, const TxRef &tx, Epoch epoch)
{
	bool may_be_gone = job->ended || job->deleters > 0 || temporary_queues.contains(job->queue);
	if (may_be_gone || h.epoch != epoch || (h.ender && h.ender != tx))
		return;
	bool ours = h.state == HandOut::State::kOpen && h.claimer == tx && !h.ender;
	bool runs = h.state == HandOut::State::kHeld && now() < h.until;
	/* Registered by intend(), but not executed: a single-statement transaction. */
	if (tx && h.ender == tx && tx->state != TxState::kEnding)
		return;
	if (ours || runs)
		breach("lease " + std::to_string(h.token) + " is refused, but it is current", job);
}

} // namespace torture
