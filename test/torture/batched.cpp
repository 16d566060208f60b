/*
 * The rules of batches.
 */
#include "batched.h"

#include <algorithm>

namespace torture {

/* ---- what happens ---- */

Key
Batched::creating(const TxRef &tx)
{
	std::lock_guard lock(ledger.mutex);
	batches[++last_batch] = {.creator = tx};
	return last_batch;
}

void
Batched::created(Key batch, int64_t id)
{
	std::lock_guard lock(ledger.mutex);
	batches.at(batch).id = id;
}

void
Batched::closing(const TxRef &tx, Key batch)
{
	std::lock_guard lock(ledger.mutex);
	batches.at(batch).closers.push_back(tx);
}

Key
Batched::adding(const TxRef &tx, Key batch, Time expires_in)
{
	std::lock_guard lock(ledger.mutex);
	members[--last_member] = {
		.batch = batch, .creator = tx, .sent = now(), .expires_in = expires_in};
	batches.at(batch).members.push_back(last_member);
	return last_member;
}

void
Batched::added(Key key, int64_t job_id, bool in_hand)
{
	std::lock_guard lock(ledger.mutex);
	Member &member = members.at(key);
	member.id = job_id;
	added_in_hand += in_hand;
	if (in_hand)
		return;
	for (const TxRef &closer : batches.at(member.batch).closers)
		if (is_committed(closer) && closer->committed_at < member.sent)
			breach("a member was added after the close", member.batch);
}

/* Return whether the transaction may be committed, or may have been for a while, before a failover. */
bool
Batched::may_commit(const TxRef &tx)
{
	return tx->state == TxState::kEnding || is_committed(tx) || tx->resolved_on != 0;
}

void
Batched::refused(const TxRef &tx, Key key, bool in_hand)
{
	std::lock_guard lock(ledger.mutex);
	Member &member = members.at(key);
	const Batch &batch = batches.at(member.batch);
	member.undone = true;
	refusals++;
	/* A member that was dead may have been brought back after the finish. */
	if (in_hand && std::none_of(batch.members.begin(), batch.members.end(), [&](Key other) {
			const std::vector<End> &ends = members.at(other).ends;
			return std::any_of(ends.begin(), ends.end(),
							   [](const End &end) { return end.how == MemberEnd::kDeath; });
		}))
		breach("a member in work could not add a member", member.batch);
	if (std::none_of(batch.closers.begin(), batch.closers.end(),
					 [&](const TxRef &closer) { return closer == tx || may_commit(closer); }))
		breach("an enqueue was refused, but the batch is open", member.batch);
}

void
Batched::undone(const std::vector<Key> &keys)
{
	std::lock_guard lock(ledger.mutex);
	for (Key key : keys)
		members.at(key).undone = true;
}

void
Batched::ended(const TxRef &tx, Key key, MemberEnd how)
{
	std::lock_guard lock(ledger.mutex);
	if (auto member = members.find(key); member != members.end())
		member->second.ends.push_back({tx, how});
	else
		ledger.breach("member " + std::to_string(key) + " has ended long ago, and is there again",
					  nullptr);
}

void
Batched::cancelling(const TxRef &tx, Key batch)
{
	std::lock_guard lock(ledger.mutex);
	batches.at(batch).closers.push_back(tx);
	batches.at(batch).cancels.push_back(tx);
}

void
Batched::purging(const TxRef &tx)
{
	std::lock_guard lock(ledger.mutex);
	purges.push_back(tx);
}

void
Batched::calling(const TxRef &tx, Key key, int64_t id, BatchEvent event,
				 const std::string &event_name)
{
	std::lock_guard lock(ledger.mutex);
	auto batch = batches.find(key);
	if (batch == batches.end())
	{
		ledger.breach("a callback of batch " + std::to_string(key) + ", which has ended long ago",
					  nullptr);
		return;
	}
	if (batch->second.id != id || event_name != kEventNames[static_cast<int>(event)])
		breach("a callback has the headers of batch " + std::to_string(id) + ", event " +
				   event_name,
			   key);
	batch->second.calls.push_back({tx, event, now()});
}

bool
Batched::some_batch(size_t place, Known *batch)
{
	static constexpr size_t kRecent = 25;
	std::lock_guard lock(ledger.mutex);
	std::vector<Known> found;
	for (auto it = batches.rbegin(); it != batches.rend() && found.size() < kRecent; ++it)
		if (is_committed(it->second.creator) && !it->second.forgetter)
			found.push_back({it->first, it->second.id});
	if (!found.empty())
		*batch = found[place % found.size()];
	return !found.empty();
}

std::vector<Batched::Known>
Batched::some_members(size_t place, size_t n)
{
	std::lock_guard lock(ledger.mutex);
	std::vector<Known> all;
	for (const auto &[key, member] : members)
		if (exists(member) && !has_end(member, now()))
			all.push_back({key, member.id});
	std::vector<Known> found;
	for (size_t i = 0; i < std::min(n, all.size()); i++)
		found.push_back(all[(place + i) % all.size()]);
	return found;
}

std::vector<Batched::Known>
Batched::open_batches()
{
	std::lock_guard lock(ledger.mutex);
	std::vector<Known> found;
	for (const auto &[key, batch] : batches)
		if (is_committed(batch.creator) && !has_close(batch, now()))
			found.push_back({key, batch.id});
	return found;
}

Batched::Known
Batched::batch_of(Key key)
{
	std::lock_guard lock(ledger.mutex);
	auto member = members.find(key);
	if (member == members.end())
		return {};
	return {member->second.batch, batches.at(member->second.batch).id};
}

/* ---- the rules ---- */

bool
Batched::has_close(const Batch &batch, Time by)
{
	return std::any_of(batch.closers.begin(), batch.closers.end(),
					   [&](const TxRef &tx) { return was_sent(tx, by); });
}

bool
Batched::has_end(const Member &member, MemberEnd how, Time by)
{
	return std::any_of(member.ends.begin(), member.ends.end(),
					   [&](const End &end) { return end.how == how && was_sent(end.tx, by); });
}

/*
 * Return whether the member may have ended by then: by a client, by its time, by a purge, or by a cancel of
 * its batch, after which the scheduler ends members.
 */
bool
Batched::has_end(const Member &member, Time by) const
{
	if (member.expires_in != 0 && by >= member.sent + member.expires_in - clock_margin())
		return true;
	const std::vector<TxRef> &cancels = batches.at(member.batch).cancels;
	return std::any_of(member.ends.begin(), member.ends.end(),
					   [&](const End &end) { return was_sent(end.tx, by); }) ||
		   std::any_of(cancels.begin(), cancels.end(),
					   [&](const TxRef &tx) { return was_sent(tx, by); }) ||
		   std::any_of(purges.begin(), purges.end(), [&](const TxRef &tx) {
			   return was_sent(tx, by) && tx->ending_sent >= member.sent;
		   });
}

/* Return whether the member was certainly acknowledged after a cancel of the batch. */
bool
Batched::is_late(const Batch &batch, const Member &member)
{
	return std::any_of(member.ends.begin(), member.ends.end(), [&](const End &end) {
		return is_committed(end.tx) &&
			   std::any_of(batch.cancels.begin(), batch.cancels.end(), [&](const TxRef &tx) {
				   return is_committed(tx) && tx->committed_at < end.tx->ending_sent;
			   });
	});
}

std::string
Batched::describe(Key key, const Member &member) const
{
	static const char *const ends[] = {"acknowledged", "dead", "gone"};
	static const char *const states[] = {"open", "ending", "prepared", "committed", "aborted"};
	auto name = [&](const TxRef &tx) {
		return " by transaction " + std::to_string(tx->id) + ", " +
			   states[static_cast<int>(tx->state)] + (tx->was_prepared ? ", was prepared" : "") +
			   (tx->resolved_on != 0 ? ", resolved" : "");
	};
	std::string text = "\n    member " + std::to_string(key) + ", job " +
					   std::to_string(member.id) + ": added" + name(member.creator) +
					   (member.undone ? ", undone" : "") +
					   (member.expires_in != 0 ? ", expires" : "");
	for (const End &end : member.ends)
		text += std::string("; ") + ends[static_cast<int>(end.how)] + name(end.tx);
	return text;
}

void
Batched::breach(const std::string &what, Key key)
{
	static constexpr size_t kMost = 20;
	const Batch &batch = batches.at(key);
	std::string text =
		"batch " + std::to_string(key) + ", id " + std::to_string(batch.id) + ": " + what;
	for (const TxRef &tx : batch.closers)
		text += "\n    closed by transaction " + std::to_string(tx->id) +
				(is_committed(tx) ? ", committed" : "");
	for (const Call &call : batch.calls)
		text += std::string("\n    callback ") + kEventNames[static_cast<int>(call.event)] +
				" by transaction " + std::to_string(call.tx->id) +
				(is_committed(call.tx) ? ", committed" : "");
	for (size_t i = 0; i < std::min(kMost, batch.members.size()); i++)
		text += describe(batch.members[i], members.at(batch.members[i]));
	ledger.breach(text, nullptr);
}

/* Check a member by itself: it is there, or has ended once. */
void
Batched::check_member(Key key, const Member &member, int live, int dead)
{
	auto fault = [&](const std::string &what) {
		breach("member " + std::to_string(key) + " " + what, member.batch);
	};
	auto finally = std::count_if(member.ends.begin(), member.ends.end(), [](const End &end) {
		return end.how != MemberEnd::kDeath && is_committed(end.tx);
	});
	if (finally > 1)
		fault("has ended twice");
	if (live + dead > 1)
		fault("is there twice");
	else if (live + dead == 1 && !exists(member))
		fault("is there, but was not enqueued");
	else if (live + dead == 1 && finally > 0)
		fault("has ended, and is there");
	else if (live + dead == 0 && exists(member) && !has_end(member, now()))
		fault("is lost");
	if (dead == 1 && !has_end(member, MemberEnd::kDeath, now()))
		fault("is a dead letter, but nobody has failed it");
}

/* Check that the callback was due when it was received. One that waits is due now. */
void
Batched::check_event(Key key, const Batch &batch, const Found &rows, BatchEvent event)
{
	std::string name = kEventNames[static_cast<int>(event)];
	if (rows.of(event) > 1)
		breach("the callback " + name + " has come " + std::to_string(rows.of(event)) + " times",
			   key);
	if (rows.of(event) == 0)
		return;
	Time by = now();
	for (const Call &call : batch.calls)
		if (call.event == event && is_committed(call.tx))
			by = call.received;
	if (event != BatchEvent::kFailure && !has_close(batch, by))
		breach("the callback " + name + " has come before the close", key);
	auto holds = [&](Key member_key) {
		const Member &member = members.at(member_key);
		bool prepared = member.creator->state == TxState::kPrepared && !member.undone;
		switch (event)
		{
			case BatchEvent::kSuccess:
				return exists(member)
						   ? has_end(member, MemberEnd::kAck, by) && !is_late(batch, member)
						   : !prepared;
			case BatchEvent::kFailure:
				return exists(member) && has_end(member, MemberEnd::kDeath, by);
			case BatchEvent::kFinish:
				return exists(member) ? has_end(member, by) : !prepared;
		}
		return false;
	};
	bool right = event == BatchEvent::kFailure
					 ? std::any_of(batch.members.begin(), batch.members.end(), holds)
					 : std::all_of(batch.members.begin(), batch.members.end(), holds);
	if (!right)
		breach("the callback " + name + " has come, but was not due", key);
}

/* Return the first callback that has not come; all members in the rows have ended. */
std::string
Batched::missing(const Batch &batch, const Found &rows) const
{
	auto all = [&](auto holds) {
		return std::all_of(batch.members.begin(), batch.members.end(), [&](Key key) {
			return !exists(members.at(key)) || holds(members.at(key));
		});
	};
	Time by = now();
	bool finished = has_close(batch, by) && rows.live == 0;
	if (finished && rows.of(BatchEvent::kFinish) == 0)
		return "finish";
	bool cancelled = std::any_of(batch.cancels.begin(), batch.cancels.end(), is_committed);
	if (finished && !cancelled && rows.of(BatchEvent::kSuccess) == 0 &&
		all([&](const Member &member) { return has_end(member, MemberEnd::kAck, by); }))
		return "success";
	if (rows.of(BatchEvent::kFailure) == 0 &&
		!all([&](const Member &member) { return !has_end(member, MemberEnd::kDeath, by); }))
		return "failure";
	return "";
}

std::map<Key, Batched::Found>
Batched::sort(const std::vector<BatchedRow> &rows)
{
	std::map<Key, Found> found;
	for (const BatchedRow &row : rows)
	{
		bool is_member = row.kind == BatchedRow::kMember || row.kind == BatchedRow::kDeadMember;
		auto member = members.find(row.key);
		bool known = is_member ? member != members.end() : batches.contains(row.key);
		if (!known)
		{
			ledger.breach((is_member ? "member " : "a callback of batch ") +
							  std::to_string(row.key) + " has ended long ago, and is there",
						  nullptr);
			continue;
		}
		Found &of_batch = found[is_member ? member->second.batch : row.key];
		int event = static_cast<int>(row.event);
		(row.kind == BatchedRow::kMember	   ? of_batch.live
		 : row.kind == BatchedRow::kDeadMember ? of_batch.dead
		 : row.kind == BatchedRow::kCallback   ? of_batch.waiting[event]
											   : of_batch.effects[event])++;
	}
	return found;
}

void
Batched::audit(const std::vector<BatchedRow> &rows, bool drained)
{
	std::lock_guard lock(ledger.mutex);
	std::map<Key, Found> found = sort(rows);
	std::map<Key, int> live;
	std::map<Key, int> dead;
	for (const BatchedRow &row : rows)
		if (row.kind == BatchedRow::kMember)
			live[row.key]++;
		else if (row.kind == BatchedRow::kDeadMember)
			dead[row.key]++;
	for (const auto &[key, member] : members)
		check_member(key, member, live[key], dead[key]);
	for (const auto &[key, batch] : batches)
	{
		const Found &of_batch = found[key];
		for (BatchEvent event : {BatchEvent::kSuccess, BatchEvent::kFailure, BatchEvent::kFinish})
		{
			if (!is_committed(batch.creator) && of_batch.of(event) > 0)
				breach("has a callback, but was not made", key);
			check_event(key, batch, of_batch, event);
			if (drained && of_batch.waiting[static_cast<int>(event)] > 0)
				breach("a callback waits for ever", key);
		}
		if (std::string event = missing(batch, of_batch); drained && event != "")
			breach("the callback " + event + " has not come", key);
	}
}

std::string
Batched::missing(const std::vector<BatchedRow> &rows)
{
	std::lock_guard lock(ledger.mutex);
	std::map<Key, Found> found = sort(rows);
	for (const auto &[key, batch] : batches)
		if (std::string event = missing(batch, found[key]); event != "")
			return event + " of batch " + std::to_string(key) + ", id " + std::to_string(batch.id);
	return "";
}

std::vector<Key>
Batched::forgetting(const TxRef &tx, const std::vector<BatchedRow> &rows)
{
	std::lock_guard lock(ledger.mutex);
	std::map<Key, Found> found = sort(rows);
	std::vector<Key> keys;
	for (auto &[key, batch] : batches)
		if (batch.creator->state == TxState::kAborted ||
			(has_close(batch, now()) && found[key].live + found[key].dead == 0))
		{
			batch.forgetter = tx;
			keys.push_back(key);
		}
	return keys;
}

void
Batched::forget()
{
	std::lock_guard lock(ledger.mutex);
	std::erase_if(batches, [&](const auto &entry) {
		const Batch &batch = entry.second;
		if (!batch.forgetter || !is_committed(batch.forgetter))
			return false;
		done += is_committed(batch.creator);
		cancels += std::any_of(batch.cancels.begin(), batch.cancels.end(), is_committed);
		for (Key key : batch.members)
		{
			members_done += exists(members.at(key));
			members.erase(key);
		}
		for (const Call &call : batch.calls)
			callbacks[static_cast<int>(call.event)] += is_committed(call.tx);
		return true;
	});
	std::erase_if(purges, [](const TxRef &tx) { return tx->state == TxState::kAborted; });
}

} // namespace torture
