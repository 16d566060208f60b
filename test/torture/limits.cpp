/* The rules of limits, rates and unique keys, and of revived dead letters. */
#include "ledger.h"

#include <algorithm>
#include <sstream>

namespace torture {

/* ---- limits ---- */

void
Ledger::limiting(const TxRef &tx, int limit)
{
	std::lock_guard lock(mutex);
	limits.push_back({tx, now(), limit == 0 ? INT_MAX : limit});
}

/* Return the greatest limit that may have been in force at some time between the two. */
int
Ledger::greatest_limit(Time from, Time to)
{
	int greatest = 0;
	for (auto it = limits.rbegin(); it != limits.rend(); ++it)
	{
		const Tx &tx = *it->tx;
		if (it->sent > to || tx.state == TxState::kAborted)
			continue;
		greatest = std::max(greatest, it->limit);
		if (tx.state == TxState::kCommitted && tx.committed_at < from)
			break;
	}
	return greatest;
}

/* Describe the limits that were set lately, the newest last. */
std::string
Ledger::describe_limits(Time to) const
{
	static constexpr size_t kShown = 5;
	std::ostringstream out;
	for (size_t i = limits.size() - std::min(limits.size(), kShown); i < limits.size(); i++)
	{
		const Limit &one = limits[i];
		out << "  limit " << one.limit << ", transaction " << one.tx->id << ", asked for "
			<< (to - one.sent) / 1000 << " ms before, "
			<< (one.tx->state == TxState::kAborted	   ? "undone"
				: one.tx->state == TxState::kCommitted ? "committed"
													   : "open");
		if (one.tx->state == TxState::kCommitted)
			out << " " << (to - one.tx->committed_at) / 1000 << " ms before";
		out << "\n";
	}
	return out.str();
}

/*
 * Check the concurrency limit: the jobs that this claim got, plus those that were certainly in work
 * during the whole call.
 */
void
Ledger::check_limits(const ClaimCall &call, const std::vector<ClaimedRow> &rows)
{
	Job *one = nullptr;
	int got = 0;
	std::map<std::pair<std::string, int>, int> rated;
	for (const ClaimedRow &row : rows)
	{
		int group = group_of(row.queue, row.held.key);
		if (row.queue == kRatedQueue || group != 0)
			rated[{row.queue, group}]++;
		if (row.queue == kLimitedQueue && find(row.held.key) != nullptr)
		{
			one = find(row.held.key);
			got++;
		}
	}
	for (const auto &[of, count] : rated)
		check_rate(of.first, of.second, call, count);
	if (one == nullptr)
		return;
	const HandOut &later = one->hand_outs.rbegin()->second;
	int beside = 0;
	std::string others;
	for (const auto &[key, job] : jobs)
	{
		if (job->queue != kLimitedQueue || job->deleters > 0)
			continue;
		for (const auto &[token, h] : job->hand_outs)
			if (runs_beside(h, later) && !(h.ender && claims_from(*h.ender, kLimitedQueue)))
			{
				beside++;
				others += "  beside lease " + std::to_string(token) + " of\n" + describe(*job);
			}
	}
	int limit = greatest_limit(call.sent, now());
	if (beside + got > limit)
		breach("handed out with " + std::to_string(got - 1) + " others, while " +
				   std::to_string(beside) + " are in work, of " + std::to_string(limit) + ":\n" +
				   others + describe_limits(call.sent) + "  and",
			   one);
}

/*
 * Return whether the transaction claims from the queue. If so, it keeps the slots of the jobs that
 * it ends.
 */
bool
Ledger::claims_from(const Tx &tx, const std::string &queue)
{
	return std::any_of(tx.effects.begin(), tx.effects.end(), [&](const Effect &effect) {
		Job *job = effect.deed == Deed::kClaim ? find(effect.key) : nullptr;
		return job != nullptr && job->queue == queue;
	});
}

/*
 * Check the rate limit when jobs were handed out: that was after the claim was sent, and before
 * now.
 */
void
Ledger::check_rate(const std::string &queue, int group, const ClaimCall &call, int rows)
{
	Time begin = now() - kRatePeriod;
	std::deque<Time> &asked = rated_sent[{queue, group}];
	for (int i = 0; i < rows; i++)
		asked.push_back(call.sent);
	std::erase_if(asked, [&](Time sent) { return sent <= begin; });
	Time last = asked.empty() ? now() : *std::max_element(asked.begin(), asked.end());
	int limit = group == 0 ? kRate : greatest_group_rate(queue, begin, last);
	if (std::ssize(asked) > limit)
		breach(std::to_string(asked.size()) + " hand-outs in one period of " + queue +
				   (group == 0 ? "" : ", group " + std::to_string(group)),
			   nullptr);
}

/* ---- unique keys ---- */

/*
 * Check that no other job has certainly had the unique key during the enqueue of this job, which is
 * now committed.
 */
void
Ledger::check_owner(Job *job)
{
	int owner = owner_of(job->queue, job->key);
	if (owner == 0)
		return;
	for (const auto &[key, other] : jobs)
		if (other.get() != job && other->queue == job->queue &&
			owner_of(job->queue, key) == owner && other->visible_at != 0 &&
			other->visible_at < job->sent_at && !may_have_ended(*other))
			breach("enqueued, but job " + std::to_string(other->id) + " has its unique key", job);
}

void
Ledger::met(const TxRef &tx, Key key)
{
	std::lock_guard lock(mutex);
	Job *job = find(key);
	note(job, "met another", tx);
	bool justified = std::any_of(jobs.begin(), jobs.end(), [&](const auto &entry) {
		const Job &other = *entry.second;
		bool gone = (other.undone || other.ended) && other.ended_at < job->sent_at;
		return &other != job && other.queue == job->queue && !gone &&
			   owner_of(job->queue, other.key) == owner_of(job->queue, key);
	});
	if (!justified)
		breach("not enqueued, but nobody has its unique key", job);
	auto ours = [&](const Effect &e) { return e.deed == Deed::kEnqueue && e.key == key; };
	if (std::erase_if(tx->effects, ours) > 0)
	{
		job->undone = true;
		job->ended_at = now();
		finished.emplace_back(now(), key);
	}
}

/* ---- dead letters that are jobs again ---- */

void
Ledger::found_dead(Job *job, int64_t attempts)
{
	note(job, "found dead", nullptr, 0, attempts);
	bury(job, Deed::kBury, job->hand_outs.empty() ? 0 : job->hand_outs.rbegin()->first, {});
}

std::set<Key>
Ledger::reviving(const TxRef &tx, const std::set<Key> &dead)
{
	std::lock_guard lock(mutex);
	std::set<Key> keys;
	for (Key key : dead)
	{
		Job *job = find(key);
		if (job == nullptr || job->undone || job->revivers > 0)
			continue;
		if (!job->ended)
			found_dead(job, 0);
		job->revivers++;
		job->revived_token_before = job->revived_token;
		job->revived_token = job->hand_outs.empty() ? 0 : job->hand_outs.rbegin()->first;
		job->touched = true;
		job->expires_from = job->expires_by = INT64_MAX;
		note(job, "to be revived", tx);
		tx->effects.push_back({.deed = Deed::kRevive, .key = key, .level = tx->level});
		keys.insert(key);
	}
	return keys;
}

void
Ledger::revived_only(const TxRef &tx, const std::set<Key> &keys)
{
	std::lock_guard lock(mutex);
	std::erase_if(tx->effects, [&](const Effect &effect) {
		bool spared = effect.deed == Deed::kRevive && !keys.contains(effect.key);
		if (Job *job = spared ? find(effect.key) : nullptr)
		{
			job->revivers--;
			job->revived_token = job->revived_token_before;
		}
		return spared;
	});
}

void
Ledger::begin_new_life(Job *job, const TxRef &tx)
{
	note(job, "revived", tx);
	job->revivers--;
	job->revived_at = now();
	if (job->ended_anew)
	{
		job->ended_anew = false;
		return;
	}
	job->ended = job->explained = false;
	revive(job);
	job->visible_at = now();
}

void
Ledger::no_new_life(Job *job, const TxRef &tx)
{
	job->revivers--;
	bool other_truth =
		std::all_of(job->hand_outs.upper_bound(job->revived_token), job->hand_outs.end(),
					[&](const auto &h) { return h.second.epoch.server < tx->resolved_on; });
	if (!other_truth)
		breach("handed out, but it is still dead", job);
	job->revived_token = job->revived_token_before;
}

} // namespace torture
