#include "ledger.h"

#include <algorithm>
#include <iostream>
#include <sstream>

namespace torture {

/*
 * Delay until the jobs of a prepared transaction are visible: COMMIT PREPARED calls no callback of
 * the extension.
 */
static constexpr Time kPreparedDelay = 2 * kSecond;
static constexpr Time kRemember = 60 * kSecond;
static constexpr size_t kHistoryMax = 60;

const char *
name_of(Deed deed)
{
	switch (deed)
	{
		case Deed::kEnqueue:
			return "enqueue";
		case Deed::kClaim:
			return "claim";
		case Deed::kAck:
			return "ack";
		case Deed::kRetry:
			return "fail (retry)";
		case Deed::kRelease:
			return "release";
		case Deed::kBury:
			return "fail (dead)";
		case Deed::kExtend:
			return "extend";
		case Deed::kDelete:
			return "delete";
		case Deed::kExpire:
			return "expiry";
		case Deed::kRevive:
			return "new life";
		case Deed::kDropQueue:
			return "drop of the queue";
	}
	return "";
}

/* ---- lookup ---- */

Ledger::Job *
Ledger::find(Key key)
{
	auto it = jobs.find(key);
	return it == jobs.end() ? nullptr : it->second.get();
}

Ledger::HandOut *
Ledger::find(Job *job, int64_t token)
{
	auto it = job->hand_outs.find(token);
	return it == job->hand_outs.end() ? nullptr : &it->second;
}

/* ---- violations ---- */

void
Ledger::note(Job *job, const char *what, const TxRef &tx, int64_t token, int64_t number)
{
	job->history.push_back({now(), what, tx ? tx->id : 0, token, number});
	if (job->history.size() > kHistoryMax)
		job->history.pop_front();
}

std::string
Ledger::describe(const Job &job)
{
	std::ostringstream out;
	out << "  job " << job.id << ", key " << job.key << ", queue " << job.queue << ", priority "
		<< job.priority << (job.touched ? " (touched)" : "") << "\n";
	for (const Event &event : job.history)
	{
		out << "    " << (event.time - start) / 1000 << " ms: " << event.what;
		if (event.token != 0)
			out << ", lease " << event.token;
		if (event.tx != 0)
			out << ", transaction " << event.tx;
		if (event.number != 0)
			out << ", " << event.number;
		out << "\n";
	}
	for (const auto &[token, h] : job.hand_outs)
	{
		out << "    lease " << token << ": attempt " << h.attempt << ", server " << h.epoch.server
			<< "/" << h.epoch.start << ", asked at " << (h.sent - start) / 1000 << " ms, got at "
			<< (h.received - start) / 1000 << " ms, runs until " << (h.until - start) / 1000
			<< " ms, "
			<< (h.state == HandOut::State::kOpen   ? "claim open"
				: h.state == HandOut::State::kHeld ? "held"
												   : "over");
		if (h.ender)
			out << ", being ended by transaction " << h.ender->id;
		out << "\n";
	}
	return out.str();
}

void
Ledger::breach(const std::string &what, const Job *job)
{
	violation_count++;
	std::cout << "VIOLATION at " << (now() - start) / 1000 << " ms: " << what << "\n"
			  << (job != nullptr ? describe(*job) : "") << std::flush;
}

void
Ledger::violation(const std::string &what)
{
	std::lock_guard lock(mutex);
	breach(what, nullptr);
}

void
Ledger::violation(const std::string &what, Key key)
{
	std::lock_guard lock(mutex);
	breach(what, find(key));
}

/* ---- the end of jobs ---- */

void
Ledger::revive(Job *job)
{
	job->place = live.size();
	live.push_back(job->key);
}

void
Ledger::bury(Job *job, Deed deed, int64_t token, Epoch epoch)
{
	job->ended = true;
	job->end = deed;
	job->end_token = token;
	job->end_epoch = epoch;
	job->ended_at = now();
	if (job->place != SIZE_MAX)
	{
		Key last = live.back();
		live[job->place] = last;
		find(last)->place = job->place;
		live.pop_back();
		job->place = SIZE_MAX;
	}
	finished.emplace_back(job->ended_at, job->key);
}

/* Return whether a committed pgq_fail just explains the end of a job that has already died. */
bool
Ledger::explains(const Job &job, Deed deed, int64_t token)
{
	return deed == Deed::kBury && job.ended && job.end == Deed::kBury && job.end_token == token &&
		   !job.explained;
}

void
Ledger::finish(Job *job, const TxRef &tx, const Effect &effect)
{
	note(job, name_of(effect.deed), tx, effect.token);
	/*
	 * The lease belongs to the job's former life; the ledger did not know this when the job was
	 * revived.
	 */
	if (effect.token != 0 && job->revived_at != 0 && effect.token <= job->revived_token)
		return;
	if (job->ended && job->revivers > 0 && effect.token > job->revived_token)
	{
		job->ended_anew = job->explained = true;
		job->end = effect.deed;
		job->end_token = effect.token;
		job->end_epoch = tx->epoch;
		job->ended_at = now();
		return;
	}
	if (job->ended)
	{
		/* Jobs of a dropped queue end with the queue, however else they end. */
		if (explains(*job, effect.deed, effect.token))
			job->explained = true;
		else if (job->end != Deed::kDropQueue && effect.deed != Deed::kDropQueue)
			breach(std::string("ended twice: ") + name_of(job->end) + ", then " +
					   name_of(effect.deed),
				   job);
		return;
	}
	bury(job, effect.deed, effect.token, tx->epoch);
	job->explained = true;
}

/* ---- transactions ---- */

TxRef
Ledger::begin(Epoch epoch)
{
	std::lock_guard lock(mutex);
	memories.insert(epoch);
	auto tx = std::make_shared<Tx>();
	tx->id = ++last_tx;
	tx->epoch = epoch;
	return tx;
}

void
Ledger::savepoint(const TxRef &tx)
{
	tx->level++;
}

void
Ledger::release_savepoint(const TxRef &tx)
{
	for (Effect &effect : tx->effects)
		effect.level = std::min(effect.level, tx->level - 1);
	tx->level--;
}

void
Ledger::rolled_back_to_savepoint(const TxRef &tx)
{
	std::lock_guard lock(mutex);
	while (!tx->effects.empty() && tx->effects.back().level >= tx->level)
	{
		undo(tx, tx->effects.back());
		tx->effects.pop_back();
	}
	tx->level--;
}

void
Ledger::ending(const TxRef &tx)
{
	std::lock_guard lock(mutex);
	tx->state = TxState::kEnding;
	tx->ending_sent = now();
}

void
Ledger::prepared(const TxRef &tx)
{
	std::lock_guard lock(mutex);
	tx->state = TxState::kPrepared;
	tx->was_prepared = true;
	for (const Effect &effect : tx->effects)
		if (Job *job = find(effect.key))
			note(job, "prepared", tx, effect.token);
}

void
Ledger::committed(const TxRef &tx, int resolved_on)
{
	std::lock_guard lock(mutex);
	tx->state = TxState::kCommitted;
	tx->committed_at = now();
	tx->resolved_on = resolved_on;
	for (const Effect &effect : tx->effects)
		apply(tx, effect);
	tx->effects.clear();
}

void
Ledger::aborted(const TxRef &tx, int resolved_on)
{
	std::lock_guard lock(mutex);
	tx->state = TxState::kAborted;
	tx->resolved_on = resolved_on;
	for (; !tx->effects.empty(); tx->effects.pop_back())
		undo(tx, tx->effects.back());
}

void
Ledger::apply(const TxRef &tx, const Effect &effect)
{
	if (effect.deed == Deed::kDropQueue)
	{
		dropped_queues.insert(effect.queue);
		std::vector<Key> gone;
		for (Key key : live)
			if (find(key)->queue == effect.queue)
				gone.push_back(key);
		for (Key key : gone)
			finish(find(key), tx, effect);
		return;
	}
	Job *job = find(effect.key);
	if (job == nullptr)
		return; /* the job was deleted long ago, under a prepared claim */
	HandOut *h = find(job, effect.token);
	switch (effect.deed)
	{
		case Deed::kEnqueue:
			note(job, "enqueue committed", tx);
			if (job->ended)
				break; /* another actor has ended it before this answer was processed */
			revive(job);
			job->visible_at = now() + (tx->was_prepared ? kPreparedDelay : 0);
			check_owner(job);
			if (dropped_queues.contains(job->queue))
				bury(job, Deed::kDropQueue, 0, tx->epoch);
			break;
		case Deed::kClaim:
			note(job, "claim committed", tx, effect.token);
			check_end(job, *h, tx, effect.deed);
			if (h->state == HandOut::State::kOpen)
				h->state = HandOut::State::kHeld;
			break;
		case Deed::kRetry:
			note(job, "fail committed", tx, effect.token);
			check_end(job, *h, tx, effect.deed);
			h->ender = nullptr;
			h->state = HandOut::State::kOver;
			h->failed = true;
			job->not_before = effect.not_before;
			break;
		case Deed::kRelease:
			note(job, "release committed", tx, effect.token);
			check_end(job, *h, tx, effect.deed);
			h->ender = nullptr;
			h->state = HandOut::State::kOver;
			h->released = true;
			job->not_before = effect.not_before;
			break;
		case Deed::kAck:
		case Deed::kBury:
			check_end(job, *h, tx, effect.deed);
			h->ender = nullptr;
			h->state = HandOut::State::kOver;
			finish(job, tx, effect);
			break;
		case Deed::kDelete:
			job->deleters--;
			finish(job, tx, effect);
			break;
		case Deed::kRevive:
			begin_new_life(job, tx);
			break;
		case Deed::kExpire:
		case Deed::kExtend:
		case Deed::kDropQueue:
			break;
	}
}

void
Ledger::undo(const TxRef &tx, const Effect &effect)
{
	Job *job = find(effect.key);
	if (job == nullptr)
		return;
	HandOut *h = find(job, effect.token);
	note(job, "undone", tx, effect.token);
	switch (effect.deed)
	{
		case Deed::kEnqueue:
			job->undone = true;
			job->ended_at = now();
			finished.emplace_back(now(), job->key);
			for (const auto &[token, seen] : job->hand_outs)
				if (seen.epoch.server >= tx->resolved_on)
					breach("handed out, but its enqueue was undone", job);
			break;
		case Deed::kClaim:
			h->state = HandOut::State::kOver;
			break;
		case Deed::kAck:
		case Deed::kRetry:
		case Deed::kRelease:
		case Deed::kBury:
			if (h->ender == tx)
				h->ender = nullptr;
			h->releasing = false;
			break;
		case Deed::kDelete:
			job->deleters--;
			break;
		case Deed::kRevive:
			no_new_life(job, tx);
			break;
		case Deed::kExpire:
		case Deed::kExtend:
		case Deed::kDropQueue:
			break;
	}
}

/* ---- enqueue ---- */

Key
Ledger::enqueuing(const TxRef &tx, const std::string &queue, int priority, Time delay,
				  Time expires_in)
{
	std::lock_guard lock(mutex);
	auto job = std::make_unique<Job>();
	Key key = job->key = ++last_key;
	job->queue = queue;
	job->group = group_of(queue, key);
	job->priority = priority;
	job->creator = tx;
	job->sent_at = now();
	job->not_before = wall() + delay;
	job->delay = delay;
	job->expires_in = expires_in;
	if (expires_in > 0)
		job->expires_from = wall() + expires_in;
	note(job.get(), "enqueue", tx, 0, delay);
	tx->effects.push_back({.deed = Deed::kEnqueue, .key = key, .level = tx->level});
	jobs.emplace(key, std::move(job));
	return key;
}

void
Ledger::enqueued(Key key, int64_t job_id)
{
	std::lock_guard lock(mutex);
	Job *job = find(key);
	if (job->id != 0 && job->id != job_id)
		breach("its id is " + std::to_string(job_id), job);
	job->id = job_id;
	job->due_by = now() + job->delay;
	if (job->expires_in > 0)
		job->expires_by = wall() + job->expires_in;
}

/* ---- claim ---- */

ClaimCall
Ledger::claiming(Epoch epoch, std::vector<std::string> queues, Time lease_time)
{
	std::lock_guard lock(mutex);
	memories.insert(epoch);
	return {now(), greatest_token, epoch, std::move(queues), lease_time};
}

void
Ledger::claim_failed(const ClaimCall &call, bool broken)
{
	std::lock_guard lock(mutex);
	for (const std::string &queue : call.queues)
		hidden[queue].push_back({call.sent, now(), broken});
}

void
Ledger::claim_refused(const ClaimCall &call)
{
	std::lock_guard lock(mutex);
	for (const std::string &queue : call.queues)
		refusals[queue].push_back({call.sent, now()});
}

void
Ledger::claimed(const ClaimCall &call, const TxRef &tx, const std::vector<ClaimedRow> &rows)
{
	std::lock_guard lock(mutex);
	if (rows.empty())
		check_empty(call);
	else
		claimed_in.insert(call.epoch);
	for (const ClaimedRow &row : rows)
	{
		int64_t token = row.held.token;
		Job *job = find(row.held.key);
		if (job == nullptr)
		{
			breach("handed out: key " + std::to_string(row.held.key) + ", job " +
					   std::to_string(row.held.job_id) + ", which is done and forgotten",
				   nullptr);
			continue;
		}
		HandOut h{.token = token,
				  .attempt = row.held.attempt,
				  .max_attempts = row.held.max_attempts,
				  .epoch = call.epoch,
				  .sent = call.sent,
				  .received = now(),
				  .until = call.sent + call.lease_time,
				  .state = tx ? HandOut::State::kOpen : HandOut::State::kHeld,
				  .claimer = tx,
				  .ender = nullptr};
		note(job, "handed out", tx, token, h.attempt);
		if (job->id != 0 && job->id != row.held.job_id)
			breach("handed out with another job's id", job);
		job->id = row.held.job_id;
		/* Leases drawn one after the other may have the same token except for the last 10 bits. */
		if (token >> 10 < call.greatest_token >> 10)
			breach("lease " + std::to_string(token) + " is older than " +
					   std::to_string(call.greatest_token) + ", which was handed out before",
				   job);
		for (const auto &[earlier, seen] : job->hand_outs)
			if (earlier >= token && seen.received < call.sent)
				breach("lease " + std::to_string(token) + " is not above " +
						   std::to_string(earlier) + ", which was handed out before",
					   job);
		greatest_token = std::max(greatest_token, token);
		if (!job->hand_outs.emplace(token, h).second)
			breach("lease " + std::to_string(token) + " was handed out twice", job);
		if (tx)
			tx->effects.push_back(
				{.deed = Deed::kClaim, .key = job->key, .token = token, .level = tx->level});

		check_existence(job, h);
		check_not_held(job, h);
		check_attempt(job, h);
		note_turn(*job, h, row.priority);
		if (row.queue != job->queue)
			breach("handed out by queue " + row.queue, job);
		if (!job->touched && row.priority != job->priority)
			breach("handed out with priority " + std::to_string(row.priority), job);
		bool newest = job->hand_outs.rbegin()->first == token;
		Time received_at = h.received + (wall() - now());
		if (newest && !job->touched && received_at < job->not_before - clock_margin())
			breach("handed out before its time", job);
		if (call.sent + (wall() - now()) - clock_margin() > job->expires_by)
			breach("handed out, but its time was over", job);
	}
	check_groups(call, rows);
	check_limits(call, rows);
}

/* ---- ack, fail, extend ---- */

void
Ledger::intend(const TxRef &tx, const Held &held, Deed deed)
{
	std::lock_guard lock(mutex);
	Job *job = find(held.key);
	if (job == nullptr)
		return;
	note(job, name_of(deed), tx, held.token);
	HandOut &h = *find(job, held.token);
	if (!h.ender)
		h.ender = tx;
	h.releasing |= deed == Deed::kRelease;
	tx->effects.push_back({.deed = deed, .key = held.key, .token = held.token, .level = tx->level});
}

void
Ledger::accepted(const TxRef &tx, const Held &held, Deed deed, Time sent, Time not_before)
{
	std::lock_guard lock(mutex);
	Job *job = find(held.key);
	if (job == nullptr)
	{
		breach(std::string("accepted: ") + name_of(deed) + " of job " +
				   std::to_string(held.job_id) + ", which is done and forgotten",
			   nullptr);
		return;
	}
	HandOut &h = *find(job, held.token);
	check_newest(job, h, deed, tx->epoch, sent);
	bool last = h.attempt >= h.max_attempts;
	if (deed == Deed::kRetry && last)
		breach("to be retried, but its attempts are used up", job);
	h.ender = tx;
	h.in_time =
		h.state == HandOut::State::kOpen || (h.state == HandOut::State::kHeld && now() < h.until);
	h.releasing |= deed == Deed::kRelease;
	if (tx->state == TxState::kEnding)
		return; /* a single statement, for which intend() has added the effect */
	note(job, name_of(deed), tx, held.token);
	tx->effects.push_back({.deed = deed,
						   .key = held.key,
						   .token = held.token,
						   .level = tx->level,
						   .not_before = not_before});
}

void
Ledger::extended(const Held &held, Epoch epoch, Time sent, Time lease_time)
{
	std::lock_guard lock(mutex);
	Job *job = find(held.key);
	if (job == nullptr)
	{
		breach("extended: job " + std::to_string(held.job_id) + ", which is done and forgotten",
			   nullptr);
		return;
	}
	HandOut &h = *find(job, held.token);
	note(job, "extended", nullptr, held.token, lease_time);
	check_newest(job, h, Deed::kExtend, epoch, sent);
	h.until = std::max(h.until, sent + lease_time);
}

void
Ledger::refused(const TxRef &tx, const Held &held, Epoch epoch)
{
	std::lock_guard lock(mutex);
	Job *job = find(held.key);
	if (job == nullptr)
		return;
	HandOut &h = *find(job, held.token);
	note(job, "refused as stale", tx, held.token);
	check_refusal(job, h, tx, epoch);
	/*
	 * The lease may be refused because another actor cancels the job. If that cancel is rolled
	 * back, the lease is lost. So nothing is certain about it from here on.
	 */
	h.until = std::min(h.until, now());
}

/* ---- the administrator ---- */

void
Ledger::deleted(const TxRef &tx, const std::vector<Key> &keys)
{
	std::lock_guard lock(mutex);
	for (Key key : keys)
	{
		Job *job = find(key);
		if (job == nullptr)
		{
			breach("deleted key " + std::to_string(key) + ", which is done and forgotten", nullptr);
			continue;
		}
		note(job, "deleted", tx);
		job->deleters++;
		tx->effects.push_back({.deed = Deed::kDelete, .key = key, .level = tx->level});
	}
}

void
Ledger::purged(const TxRef &tx, const std::vector<Key> &keys)
{
	deleted(tx, keys);
	std::lock_guard lock(mutex);
	for (Key key : keys)
	{
		Job *job = find(key);
		if (job == nullptr)
			continue;
		for (const auto &[token, h] : job->hand_outs)
			if (h.state == HandOut::State::kHeld && !h.ender && h.epoch == tx->epoch &&
				now() < h.until)
				breach("purged while lease " + std::to_string(token) + " runs", job);
	}
}

void
Ledger::seen_acked(Key key)
{
	std::lock_guard lock(mutex);
	Job *job = find(key);
	if (job == nullptr || job->may_be_finished || (job->ended && job->end == Deed::kAck))
		return;
	bool tried = std::any_of(job->hand_outs.begin(), job->hand_outs.end(),
							 [](const auto &h) { return h.second.ender != nullptr; });
	if (!tried)
		breach("acknowledged by nobody, says pgq_result", job);
}

void
Ledger::revoked(const std::vector<Key> &keys)
{
	std::lock_guard lock(mutex);
	for (Key key : keys)
		if (Job *job = find(key))
			for (auto &[token, h] : job->hand_outs)
				if (h.state != HandOut::State::kOver)
					h.state = HandOut::State::kOver;
}

void
Ledger::finishing(const std::vector<Key> &keys)
{
	std::lock_guard lock(mutex);
	for (Key key : keys)
		if (Job *job = find(key))
		{
			job->may_be_finished = true;
			note(job, "finishing", nullptr);
		}
}

void
Ledger::deleted_only(const TxRef &tx, const std::set<Key> &keys)
{
	std::lock_guard lock(mutex);
	std::erase_if(tx->effects, [&](const Effect &effect) {
		bool spared = effect.deed == Deed::kDelete && !keys.contains(effect.key);
		if (Job *job = spared ? find(effect.key) : nullptr)
			job->deleters--;
		return spared;
	});
}

void
Ledger::dropped_queue(const TxRef &tx, const std::string &queue)
{
	tx->effects.push_back({.deed = Deed::kDropQueue, .level = tx->level, .queue = queue});
}

void
Ledger::touched(const std::vector<Key> &keys)
{
	std::lock_guard lock(mutex);
	for (Key key : keys)
		if (Job *job = find(key))
		{
			job->touched = true;
			note(job, "touched", nullptr);
		}
}

void
Ledger::temporary(const std::string &queue)
{
	std::lock_guard lock(mutex);
	temporary_queues.insert(queue);
}

bool
Ledger::is_temporary(const std::string &queue)
{
	std::lock_guard lock(mutex);
	return temporary_queues.contains(queue);
}

std::vector<std::pair<Key, int64_t>>
Ledger::some_live(size_t place, size_t n, const std::set<std::string> &spared)
{
	std::lock_guard lock(mutex);
	std::vector<std::pair<Key, int64_t>> some;
	for (size_t i = 0; i < std::min(n, live.size()); i++)
	{
		const Job &job = *find(live[(place + i) % live.size()]);
		if (job.id != 0 && !spared.contains(job.queue))
			some.emplace_back(job.key, job.id);
	}
	return some;
}

std::set<Key>
Ledger::live_in(const std::string &queue)
{
	std::lock_guard lock(mutex);
	std::set<Key> keys;
	for (Key key : live)
		if (find(key)->queue == queue)
			keys.insert(key);
	return keys;
}

std::set<Key>
Ledger::awaited_in(const std::string &queue)
{
	std::set<Key> keys = live_in(queue);
	std::lock_guard lock(mutex);
	std::erase_if(keys, [&](Key key) { return may_have_expired(*find(key)); });
	return keys;
}

size_t
Ledger::live_count()
{
	std::lock_guard lock(mutex);
	return live.size();
}

void
Ledger::scheduler_disturbed()
{
	std::lock_guard lock(mutex);
	scheduler_disturbed_at = now();
}

void
Ledger::without_scheduler(bool missing)
{
	std::lock_guard lock(mutex);
	scheduler_missing = missing;
}

void
Ledger::stopping_fast(Time at)
{
	std::lock_guard lock(mutex);
	fast_restarts.emplace_back(at, INT64_MAX);
}

void
Ledger::started_again(Time at)
{
	std::lock_guard lock(mutex);
	fast_restarts.back().second = at;
}

/* ---- quiet points ---- */

void
Ledger::audit(const std::set<Key> &rows, const std::map<Key, DeadRow> &dead)
{
	std::lock_guard lock(mutex);
	check_suspects();
	check_missed();
	check_turns();
	for (Key key : rows)
	{
		Job *job = find(key);
		if (job == nullptr || job->place == SIZE_MAX)
			breach("key " + std::to_string(key) +
					   " is in pgq_ext.job, but was never committed, or is done",
				   job);
	}
	for (const auto &[key, row] : dead)
	{
		Job *job = find(key);
		if (job == nullptr || (job->ended && job->end == Deed::kBury))
			continue;
		if (job->ended || job->undone || row.attempts < row.max_attempts)
			breach("in pgq_ext.dead_job: " + row.reason, job);
		else
			found_dead(job, row.attempts);
	}
	for (Key key : std::vector<Key>(live))
	{
		if (rows.contains(key))
			continue;
		if (may_have_expired(*find(key)))
			bury(find(key), Deed::kExpire, 0, {});
		else
			breach("a committed job is lost", find(key));
	}
	for (const auto &[key, job] : jobs)
		if (job->ended && job->end == Deed::kBury && !dead.contains(key) &&
			!dropped_queues.contains(job->queue))
			breach("a dead job is not in pgq_ext.dead_job", job.get());
}

void
Ledger::prune()
{
	std::lock_guard lock(mutex);
	Time horizon = now() - kRemember;
	while (!finished.empty() && finished.front().first < horizon)
	{
		Key key = finished.front().second;
		finished.pop_front();
		Job *job = find(key);
		if (job == nullptr)
			continue;
		/* A dead letter may be revived. */
		bool dead = job->ended && job->end == Deed::kBury && !dropped_queues.contains(job->queue);
		if (dead || job->revivers > 0)
			finished.emplace_back(now(), key);
		else if (job->undone || (job->ended && job->ended_at < horizon))
			jobs.erase(key);
	}
	for (auto *all : {&hidden, &refusals})
		for (auto &[queue, claims] : *all)
			while (!claims.empty() && claims.front().failed < horizon)
				claims.pop_front();
	while (!kept_moves.empty() && kept_moves.front().second < horizon)
		kept_moves.pop_front();
}

} // namespace torture
