/* The rules of groups: how many jobs of a group are in work, in which order, and whose turn it is. */
#include "ledger.h"

#include <algorithm>

namespace torture {

/* For how long a job may be in work that a claim without an answer has handed out. */
static constexpr Time kUnseenWork = 12 * kSecond;

/* Moves of one row, of those that nobody keeps, during the wait of its job. */
static constexpr int kMoves = 2;

/* ---- rules that change ---- */

void
Ledger::ruling(const TxRef &tx, const GroupRules &rules)
{
	std::lock_guard lock(mutex);
	rulings.push_back({tx, now(), rules});
}

/* Return all rules that may have been in force at some time between the two. */
std::vector<GroupRules>
Ledger::rules_between(const std::string &queue, Time from, Time to)
{
	std::vector<GroupRules> possible;
	for (auto it = rulings.rbegin(); queue == kRuledQueue && it != rulings.rend(); ++it)
	{
		const Tx &tx = *it->tx;
		if (it->sent > to || tx.state == TxState::kAborted)
			continue;
		possible.push_back(it->rules);
		if (tx.state == TxState::kCommitted && tx.committed_at < from)
			return possible;
	}
	possible.push_back(group_queue(queue)->rules);
	return possible;
}

/* Return how many jobs of one group the rules may have allowed in work at some time. */
int
Ledger::greatest_room(const std::string &queue, Time from, Time to)
{
	int greatest = 0;
	for (const GroupRules &rules : rules_between(queue, from, to))
		greatest = std::max(greatest, rules.fifo			  ? 1
									  : rules.concurrency > 0 ? rules.concurrency
															  : INT_MAX);
	return greatest;
}

/*
 * Return how many hand-outs of a group the rules may have allowed in the period that began at
 * `from`, and in which the last hand-out was not before `last`. Hand-outs before the rate was set
 * do not count.
 */
int
Ledger::greatest_group_rate(const std::string &queue, Time from, Time last)
{
	int greatest = 0;
	for (const GroupRules &rules : rules_between(queue, from, now()))
		if (rules.rate == 0)
			return INT_MAX;
	for (const GroupRules &rules : rules_between(queue, last, now()))
		greatest = std::max(greatest, rules.rate);
	return greatest;
}

/* Return whether groups may have had a rate limit at some time between the two. */
bool
Ledger::may_wait_for_time(const std::string &queue, Time from, Time to)
{
	std::vector<GroupRules> possible = rules_between(queue, from, to);
	return std::any_of(possible.begin(), possible.end(),
					   [](const GroupRules &rules) { return rules.rate > 0; });
}

/* ---- a hand-out ---- */

void
Ledger::check_groups(const ClaimCall &call, const std::vector<ClaimedRow> &rows)
{
	std::map<std::pair<std::string, int>, std::map<Key, int64_t>> got;
	for (const ClaimedRow &row : rows)
	{
		Job *job = find(row.held.key);
		if (job == nullptr || job->group == 0 || job->touched)
			continue;
		got[{job->queue, job->group}].emplace(row.held.key, row.held.token);
		check_fifo(call, job);
	}
	for (const auto &[group, jobs_of_group] : got)
		check_room(call, jobs_of_group);
}

/*
 * Check how many jobs of a group are in work, at two moments: at the hand-out of these jobs, and
 * now. Of the jobs that are certainly in work now, the last one was handed out while all of them
 * were in work, and not before its claim was sent. got: the keys of the jobs, and their leases.
 */
void
Ledger::check_room(const ClaimCall &call, const std::map<Key, int64_t> &got)
{
	Job *one = find(got.begin()->first);
	const HandOut &later = *find(one, got.begin()->second);
	int beside = 0;
	int at_once = 0;
	Time last = call.sent;
	std::string others;
	for (const auto &[key, job] : jobs)
	{
		if (job->queue != one->queue || job->group != one->group || job->touched ||
			job->deleters > 0 || job->ended)
			continue;
		auto ours = got.find(key);
		for (const auto &[token, h] : job->hand_outs)
		{
			bool is_ours = ours != got.end() && ours->second == token;
			bool runs = h.epoch == call.epoch && runs_now(h);
			bool during = !is_ours && runs_beside(h, later);
			beside += during;
			at_once += runs;
			last = runs ? std::max(last, h.sent) : last;
			if (job.get() != one && (runs || during || is_ours))
				others += "  beside lease " + std::to_string(token) + " of\n" + describe(*job);
		}
	}
	int room = greatest_room(one->queue, call.sent, now());
	int more = static_cast<int>(got.size()) - 1;
	if (more + 1 + beside > room)
		breach("handed out with " + std::to_string(more) + " others of its group, while " +
				   std::to_string(beside) + " are in work, of " + std::to_string(room) + ":\n" +
				   others + "  and",
			   one);
	else if (at_once > greatest_room(one->queue, last, now()))
		breach(std::to_string(at_once) + " jobs of its group are in work at once, of " +
				   std::to_string(greatest_room(one->queue, last, now())) + ":\n" + others +
				   "  and",
			   one);
}

/* Return whether the job of h is certainly in work now, or was so when its server stopped. */
bool
Ledger::runs_now(const HandOut &h)
{
	if (h.ender)
		return h.in_time && h.ender->state == TxState::kPrepared;
	if (h.state == HandOut::State::kOpen)
		return h.claimer->state == TxState::kPrepared;
	return h.state == HandOut::State::kHeld && now() < h.until;
}

/*
 * In a queue with fifo, check that no older job of the group certainly exists: one that was
 * committed when the enqueue of this job was sent, or one with a smaller id that was committed when
 * the claim was sent.
 */
void
Ledger::check_fifo(const ClaimCall &call, Job *job)
{
	std::vector<GroupRules> possible = rules_between(job->queue, call.sent, now());
	if (!std::all_of(possible.begin(), possible.end(),
					 [](const auto &rules) { return rules.fifo; }))
		return;
	for (const auto &[key, other] : jobs)
	{
		if (other.get() == job || other->queue != job->queue || other->group != job->group ||
			other->visible_at == 0 || other->touched || other->deleters > 0 || other->ended)
			continue;
		bool older = other->id != 0 && other->id < job->id && other->visible_at < call.sent;
		if ((older || other->visible_at < job->sent_at) && !may_have_ended(*other))
			breach("handed out before job " + std::to_string(other->id) + " of its group", job);
	}
}

/* ---- no hand-out ---- */

/*
 * Return whether the group of a job that a claim has not found may have had no room. At that time
 * another job of the group may have been in work, or an older one may have existed. Or another
 * claim of the queue may just have been looking at a job of the group.
 */
bool
Ledger::may_be_held_back(const Job &job, const Missed &m)
{
	Time from = m.sent - kSetAside;
	if (broken_claims(job.queue, m.sent - kUnseenWork, m.answered))
		return true;
	std::vector<GroupRules> possible = rules_between(job.queue, m.sent, m.answered);
	bool fifo = std::any_of(possible.begin(), possible.end(),
							[](const GroupRules &rules) { return rules.fifo; });
	for (const auto &[key, other] : jobs)
	{
		if (other.get() == &job || other->queue != job.queue)
			continue;
		bool over = (other->ended || other->undone) && other->ended_at < from;
		bool blocks = other->group == job.group && !over;
		if (fifo && blocks && (other->id == 0 || other->id < job.id))
			return true;
		for (const auto &[token, h] : other->hand_outs)
			if (h.sent <= m.answered && (blocks || h.received >= m.sent))
				return true;
	}
	return false;
}

/* ---- turns ---- */

std::string
unfair_turn(const std::vector<int> &groups)
{
	std::map<int, size_t> end;	  /* place of the last job of each group */
	std::map<int, size_t> before; /* place of the last turn so far */
	for (size_t i = 0; i < groups.size(); i++)
		end[groups[i]] = i;
	for (size_t i = 0; i < groups.size(); i++)
	{
		int group = groups[i];
		auto turn = before.find(group);
		for (const auto &[other, last] : end)
			if (turn != before.end() && other != group && last > i &&
				(!before.contains(other) || before[other] < turn->second))
				return "group " + std::to_string(group) + " has the turns " +
					   std::to_string(turn->second) + " and " + std::to_string(i) + ", and group " +
					   std::to_string(other) + " has none between them";
		before[group] = i;
	}
	return "";
}

void
Ledger::note_turn(const Job &job, const HandOut &h, int priority)
{
	if (job.queue == kTurnsQueue)
		turns.push_back({job.group, priority, h.epoch, h.sent, h.received});
}

void
Ledger::move_kept(Time from, Time to)
{
	std::lock_guard lock(mutex);
	kept_moves.emplace_back(from, to);
}

/*
 * Return how many turns one group may have while a job of another group waits between these times.
 * Only turns count that are longest_move apart.
 *
 * As long as claims can take the job, another group has one turn at most: after that turn, the turn
 * of the waiting group comes first. But while the row of the job is being moved, the group of the
 * job is passed over. A move takes longest_move, so one counted turn falls into it, and one follows
 * it. A move that is kept takes longer. The scheduler may also be paused in the middle of a move.
 */
int
Ledger::most_turns(Time from, Time to) const
{
	int most = 1 + 2 * kMoves;
	for (const auto &[begin, end] : kept_moves)
		if (begin <= to && end >= from)
			most += 2 + static_cast<int>((end - begin) / longest_move);
	return most;
}

/*
 * Check the turns of groups since the last quiet point, when all claims are answered: for each job
 * that was certainly ready from the commit of its enqueue until its first hand-out.
 */
void
Ledger::check_turns()
{
	for (const auto &[key, job] : jobs)
	{
		if (job->queue != kTurnsQueue || job->touched || job->deleters > 0 || job->undone ||
			job->visible_at == 0 || job->delay > 0 || job->expires_in > 0)
			continue;
		const HandOut *first = job->hand_outs.empty() ? nullptr : &job->hand_outs.begin()->second;
		if (first == nullptr ? job->ended : first->attempt > 1)
			continue;
		Time from = std::max(job->visible_at, turns_since);
		Time to = first == nullptr ? now() : first->sent;
		if (from < to && hidden_claims(job->queue, job->visible_at - kSetAside, to) == 0)
			check_turns(*job, from, to);
	}
	turns.clear();
	turns_since = now();
}

/* Check the turns of each other group while this job waits, between two turns of its own group. */
void
Ledger::check_turns(const Job &job, Time from, Time to)
{
	std::vector<const Turn *> own;
	for (const Turn &turn : turns)
		if (turn.group == job.group && turn.priority == job.priority)
			own.push_back(&turn);
	struct Count
	{
		int n = 0;
		Time last = 0;
	};
	std::map<std::tuple<Epoch, size_t, int>, Count> counts;
	for (const Turn &turn : turns)
	{
		if (turn.priority != job.priority || turn.group == job.group || turn.sent <= from ||
			turn.received >= to)
			continue;
		auto over = [&](const Turn *one) { return one->received < turn.sent; };
		auto begun = [&](const Turn *one) { return one->sent <= turn.received; };
		auto place = std::count_if(own.begin(), own.end(), over);
		if (std::count_if(own.begin(), own.end(), begun) != place)
			continue;
		Count &count = counts[{turn.epoch, static_cast<size_t>(place), turn.group}];
		if (count.n > 0 && turn.sent <= count.last + longest_move)
			continue;
		count.n++;
		count.last = turn.received;
		if (count.n == most_turns(from, to) + 1)
			breach("passed over: group " + std::to_string(turn.group) + " has had " +
					   std::to_string(count.n) + " turns while it waited",
				   &job);
	}
}

} // namespace torture
