/*
 * The rules of handlers.
 */
#include "handled.h"

#include <algorithm>

namespace torture {

/* ---- what a handler does ---- */

static int
style_of(Key key)
{
	static constexpr int kStyles = 20;
	Key n = -key;
	return static_cast<int>((n < kFollowUp ? n : n / kStyles) % kStyles);
}

/* Calls fail only in some times, since otherwise a call of many jobs would never succeed. */
static bool
is_bad_time(Key key)
{
	return -key / 200 % 3 == 0;
}

bool
has_follow_up(Key key)
{
	int style = style_of(key);
	return -key < kFollowUp && (style == 8 || style == 9);
}

int
failing_attempts(Key key)
{
	int style = style_of(key);
	if (style == 5)
		return 2;
	if (!is_bad_time(key))
		return 0;
	return style <= 1 ? static_cast<int>(1 + -key % 3) : style == 10 ? 1 : 0;
}

bool
may_be_buried(Key key)
{
	return style_of(key) == 7;
}

/* ---- what happens ---- */

Key
Handled::enqueuing(const TxRef &tx, const std::string &queue)
{
	std::lock_guard lock(ledger.mutex);
	Key key = --last_key;
	jobs[key] = {.queue = queue, .creator = tx};
	return key;
}

void
Handled::enqueued(Key key, int64_t job_id)
{
	static constexpr size_t kRecent = 100;
	std::lock_guard lock(ledger.mutex);
	jobs.at(key).id = job_id;
	recent.push_back(key);
	if (recent.size() > kRecent)
		recent.erase(recent.begin());
}

void
Handled::undone(const std::vector<Key> &keys)
{
	std::lock_guard lock(ledger.mutex);
	for (Key key : keys)
		jobs.at(key).undone = true;
}

void
Handled::cancelling(const TxRef &tx, Key key)
{
	std::lock_guard lock(ledger.mutex);
	if (auto found = jobs.find(key); found != jobs.end())
		found->second.cancels.push_back({tx});
}

void
Handled::cancelled(const TxRef &tx, Key key, bool found)
{
	std::lock_guard lock(ledger.mutex);
	auto job = jobs.find(key);
	if (job == jobs.end())
	{
		if (found)
			ledger.breach("cancelled, but handled job " + std::to_string(key) + " was done",
						  nullptr);
		return;
	}
	std::vector<Cancel> &cancels = job->second.cancels;
	auto own = [&](const Cancel &cancel) { return cancel.tx == tx; };
	if (found)
		for (Cancel &cancel : cancels)
			cancel.answered |= own(cancel);
	else
		std::erase_if(cancels, own);
}

void
Handled::changing(const TxRef &tx)
{
	std::lock_guard lock(ledger.mutex);
	changes.push_back(tx);
}

std::vector<std::pair<Key, int64_t>>
Handled::some(size_t place, size_t n)
{
	std::lock_guard lock(ledger.mutex);
	std::vector<std::pair<Key, int64_t>> found;
	for (size_t i = 0; i < recent.size() && found.size() < n; i++)
	{
		Key key = recent[(place + i) % recent.size()];
		auto job = jobs.find(key);
		if (job != jobs.end() && job->second.creator->state == TxState::kCommitted &&
			!job->second.undone)
			found.emplace_back(key, job->second.id);
	}
	return found;
}

bool
Handled::is_locked()
{
	std::lock_guard lock(ledger.mutex);
	auto may_last = [](const TxRef &tx) {
		return tx->state != TxState::kCommitted && tx->state != TxState::kAborted;
	};
	std::erase_if(changes, [&](const TxRef &tx) { return !may_last(tx); });
	return !changes.empty() || std::any_of(jobs.begin(), jobs.end(), [&](const auto &job) {
		return std::any_of(job.second.cancels.begin(), job.second.cancels.end(),
						   [&](const Cancel &cancel) { return may_last(cancel.tx); });
	});
}

/* ---- the rules ---- */

/* Return whether the ends of all transactions that may have enqueued or cancelled it are known. */
bool
Handled::is_certain(const Job &job) const
{
	auto is_over = [](const TxRef &tx) {
		return tx->state == TxState::kCommitted || tx->state == TxState::kAborted;
	};
	return is_over(job.creator) &&
		   std::all_of(job.cancels.begin(), job.cancels.end(),
					   [&](const Cancel &cancel) { return is_over(cancel.tx); });
}

/* Return whether the job may be there, or have an effect: it was enqueued, and not cancelled. */
bool
Handled::may_exist(const Job &job) const
{
	return job.creator->state == TxState::kCommitted && !job.undone &&
		   std::none_of(job.cancels.begin(), job.cancels.end(), [](const Cancel &cancel) {
			   return cancel.answered && cancel.tx->state == TxState::kCommitted;
		   });
}

void
Handled::breach(const std::string &what, Key key, const Job &job, const Found &rows)
{
	static const char *const kinds[] = {"live", "dead", "effect"};
	static const char *const states[] = {"open", "ending", "prepared", "committed", "aborted"};
	auto describe = [](const TxRef &tx) {
		return "transaction " + std::to_string(tx->id) + ", " +
			   states[static_cast<int>(tx->state)] + (tx->was_prepared ? ", was prepared" : "") +
			   (tx->resolved_on != 0 ? ", resolved" : "");
	};
	std::string text = "handled job " + std::to_string(key) + ": " + what + "\n    job id " +
					   std::to_string(job.id) + ", queue " + job.queue + "; enqueued by " +
					   describe(job.creator) + (job.undone ? ", undone" : "");
	for (const Cancel &cancel : job.cancels)
		text += "\n    cancelled by " + describe(cancel.tx) +
				(cancel.answered ? ", was there" : ", no answer");
	for (const HandledRow *row : rows.all)
		text += std::string("\n    ") + kinds[row->kind] + " in " + row->queue + ", attempt " +
				std::to_string(row->attempt) + ", " + row->text;
	ledger.breach(text, nullptr);
}

/* Check a row by itself. */
void
Handled::check_row(const HandledRow &row, const Job &job, const Found &rows)
{
	if (row.queue != job.queue)
		breach("is in queue " + row.queue, row.key, job, rows);
	if (row.kind != HandledRow::kEffect)
		return;
	if (row.text != (job.queue == kManyQueue ? "handle_many" : "handle"))
		breach("was done by the handler of another queue", row.key, job, rows);
	if (row.attempt <= failing_attempts(row.key))
		breach("has an effect of a call that has failed", row.key, job, rows);
}

/* Check a job and its follow-up job. */
void
Handled::check(Key key, const Job &job, const Found &rows, const Found &next, bool drained)
{
	for (const HandledRow *row : rows.all)
		check_row(*row, job, rows);
	if (rows.effects > 1)
		breach("has two effects", key, job, rows);
	else if (rows.sum() > 1)
		breach("is there twice", key, job, rows);
	else if (rows.sum() > 0 && !may_exist(job))
		breach("is there, or has an effect, but was cancelled or never enqueued", key, job, rows);
	else if (rows.sum() == 0 && may_exist(job) && is_certain(job))
		breach("is lost", key, job, rows);
	if (rows.live > 0 && drained)
		breach("waits for ever", key, job, rows);

	int expected = has_follow_up(key) ? rows.effects : 0;
	if (next.effects > 1)
		breach("its follow-up job has two effects", key, job, next);
	else if (next.sum() != expected)
		breach("has " + std::to_string(next.sum()) + " follow-up jobs and " +
				   std::to_string(rows.effects) + " effects",
			   key, job, next);
	for (const HandledRow *row : next.all)
		check_row(*row, {.queue = job.queue == kManyQueue ? kHandledQueue : kManyQueue}, next);
	if (next.live > 0 && drained)
		breach("its follow-up job waits for ever", key, job, next);
}

void
Handled::audit(const std::vector<HandledRow> &rows, bool drained, long kills)
{
	static const std::string crash = "the server crashed twice while a handler ran the job";
	static const Found none;
	std::lock_guard lock(ledger.mutex);
	long crashes = 0;
	seen.clear();
	for (const HandledRow &row : rows)
	{
		Found &of_key = seen[row.key];
		of_key.all.push_back(&row);
		(row.kind == HandledRow::kJob	 ? of_key.live
		 : row.kind == HandledRow::kDead ? of_key.dead
										 : of_key.effects)++;
		if (!jobs.contains(row.key) && !jobs.contains(row.key + kFollowUp))
			ledger.breach("handled job " + std::to_string(row.key) +
							  " has ended long ago, and is there again, or has an effect: " +
							  std::string(row.text),
						  nullptr);
		if (row.kind != HandledRow::kDead)
			continue;
		crashes += row.text == crash;
		if (row.text != crash && !may_be_buried(row.key))
			ledger.breach("handled job " + std::to_string(row.key) +
							  " is a dead letter, for the reason: " + row.text,
						  nullptr);
	}
	auto rows_of = [&](Key key) -> const Found & {
		auto found = seen.find(key);
		return found == seen.end() ? none : found->second;
	};
	for (const auto &[key, job] : jobs)
		check(key, job, rows_of(key), rows_of(key - kFollowUp), drained);
	/* The server was crashed twice in calls of each of these jobs. */
	if (2 * crashes > kills)
		ledger.breach(std::to_string(crashes) + " dead letters because of crashes, but only " +
						  std::to_string(kills) + " workers were killed",
					  nullptr);
	crashed = std::max<long>(crashed, crashes);
	for (auto &[key, of_key] : seen)
		of_key.all.clear();
}

std::vector<Key>
Handled::forgetting(const TxRef &tx)
{
	std::lock_guard lock(ledger.mutex);
	std::vector<Key> keys;
	for (auto &[key, job] : jobs)
	{
		const Found &rows = seen[key];
		const Found &next = seen[key - kFollowUp];
		if (!is_certain(job) || rows.live + rows.dead + next.live + next.dead > 0)
			continue;
		job.forgetter = tx;
		keys.push_back(key);
		keys.push_back(key - kFollowUp);
	}
	return keys;
}

void
Handled::forget()
{
	std::lock_guard lock(ledger.mutex);
	std::erase_if(jobs, [&](const auto &entry) {
		const auto &[key, job] = entry;
		if (!job.forgetter || job.forgetter->state != TxState::kCommitted)
			return false;
		int effects = seen[key].effects;
		int next = seen[key - kFollowUp].effects;
		done += effects + next;
		done_by_array += job.queue == kManyQueue ? effects : next;
		follow_ups += next;
		cancels += job.creator->state == TxState::kCommitted && !job.undone && !may_exist(job);
		return true;
	});
}

} // namespace torture
