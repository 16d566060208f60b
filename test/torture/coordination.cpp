/*
 * The rules of locks, runs and rates.
 */
#include "coordination.h"

#include <algorithm>
#include <sstream>

namespace torture {

/* How long a grant is kept after which nothing new can be learned about it. */
static constexpr Time kRememberAnswers = 60 * kSecond;

/* ---- what happens ---- */

GrantRef
Coordination::granted(const LockName &of, int64_t token, const TxRef &taker, Time sent, Time ttl,
					  const Life &session)
{
	std::lock_guard lock(ledger.mutex);
	auto grant = std::make_shared<Grant>(Grant{.of = of,
											   .bucket = of.is_run ? "" : "-",
											   .token = token,
											   .epoch = taker->epoch,
											   .taker = taker,
											   .sent = sent,
											   .received = now(),
											   .ttl = ttl,
											   .session = session});
	std::vector<GrantRef> &grants = names[of.name];
	if (token <= forgotten[of.name])
		ledger.breach("token " + std::to_string(token) + " of " + of.name + " is not above " +
						  std::to_string(forgotten[of.name]) + ", which was given before",
					  nullptr);
	GrantRef before;
	for (const GrantRef &other : grants)
	{
		if (other->received < sent && other->token >= token)
			ledger.breach("tokens do not grow:\n" + describe(*grant) + describe(*other), nullptr);
		if (other->token == token)
			ledger.breach("a token was given twice:\n" + describe(*grant) + describe(*other),
						  nullptr);
		if (other->received < sent && (!before || before->token < other->token))
			before = other;
	}
	grants.push_back(grant);
	locks++;
	if (before && of.slots == 1 && !of.is_run && is_certain(before->taker, before->undone) &&
		std::none_of(before->usages.begin(), before->usages.end(),
					 [&](const UsageRef &usage) { return before->ends_by(usage->use); }))
		taken_over++;
	return grant;
}

void
Coordination::belongs_to(const GrantRef &grant, const std::string &bucket)
{
	std::lock_guard lock(ledger.mutex);
	grant->bucket = bucket;
}

UsageRef
Coordination::using_it(const GrantRef &grant, Use use, const TxRef &tx, Epoch epoch, Time ttl)
{
	std::lock_guard lock(ledger.mutex);
	auto usage = std::make_shared<Usage>(
		Usage{.use = use, .tx = tx, .epoch = epoch, .sent = now(), .ttl = ttl});
	grant->usages.push_back(usage);
	return usage;
}

void
Coordination::accepted(const UsageRef &usage)
{
	std::lock_guard lock(ledger.mutex);
	usage->answered = now();
	usage->accepted = true;
}

void
Coordination::refused(const UsageRef &usage)
{
	std::lock_guard lock(ledger.mutex);
	usage->answered = now();
	usage->refused = true;
}

void
Coordination::seen_open(const TxRef &tx, const Life &session)
{
	std::lock_guard lock(ledger.mutex);
	*session = tx->seen_open = now();
}

void
Coordination::undoing(const TxRef &tx, Time from)
{
	std::lock_guard lock(ledger.mutex);
	Time at = now();
	for (const auto &[name, grants] : names)
		for (const GrantRef &grant : grants)
		{
			if (grant->taker == tx && grant->sent >= from)
				grant->undone = std::min(grant->undone, at);
			for (const UsageRef &usage : grant->usages)
				if (usage->tx == tx && usage->sent >= from)
					usage->undone = std::min(usage->undone, at);
		}
}

/*
 * Check the rate when permits were taken: they were taken after the statement was sent, and before
 * now.
 */
void
Coordination::took(const RateName &rate, int n, Time sent)
{
	std::lock_guard lock(ledger.mutex);
	Time begin = now() - rate.period;
	std::deque<std::pair<Time, int>> &asked = taken[rate.name];
	asked.emplace_back(sent, n);
	std::erase_if(asked, [&](const auto &one) { return one.first <= begin; });
	int sum = 0;
	for (const auto &[at, count] : asked)
		sum += count;
	permits += n;
	if (sum > rate.permits)
		ledger.breach(std::to_string(sum) + " permits of " + rate.name + " in one period, of " +
						  std::to_string(rate.permits),
					  nullptr);
}

/* ---- what is certain ---- */

bool
Coordination::is_certain(const TxRef &tx, Time undone)
{
	return tx->state == TxState::kCommitted && undone == INT64_MAX;
}

/*
 * Return whether the effect is certain not to exist. For a transaction that was found lost after a
 * failover, the effect may have existed on the server that is lost too.
 */
bool
Coordination::is_void(const TxRef &tx, Time undone)
{
	return (tx->state == TxState::kAborted && tx->resolved_on == 0) || undone != INT64_MAX;
}

Time
Coordination::open_until(const TxRef &tx, Time undone)
{
	Time seen = tx->state == TxState::kCommitted ? tx->ending_sent : tx->seen_open;
	return std::min(seen, undone);
}

/*
 * Return the spans of time for which the lock was certainly held: while the transaction that has
 * taken the lock, or one that relies on it, was open; and if the taking is committed, for its ttl,
 * counted from the time at which the statement was sent. Each span ends when a statement was sent
 * that may have given the lock back.
 */
std::vector<Coordination::Span>
Coordination::spans(const Grant &grant)
{
	Time cut = INT64_MAX;
	for (const UsageRef &usage : grant.usages)
		if (grant.ends_by(usage->use) && !usage->refused && !is_void(usage->tx, usage->undone))
			cut = std::min(cut, usage->sent);
	std::vector<Span> all;
	auto add = [&](Time from, Time to) {
		if (grant.session)
			to = std::min(to, *grant.session);
		if (from < std::min(to, cut))
			all.emplace_back(from, std::min(to, cut));
	};
	add(grant.received, open_until(grant.taker, grant.undone));
	bool committed = is_certain(grant.taker, grant.undone);
	if (committed)
		add(grant.received, grant.sent + grant.ttl);
	for (const UsageRef &usage : grant.usages)
	{
		if (!usage->accepted)
			continue;
		if (usage->use == Use::kAssert)
			add(usage->answered, open_until(usage->tx, usage->undone));
		if (usage->use == Use::kExtend && committed && is_certain(usage->tx, usage->undone))
			add(usage->answered, usage->sent + usage->ttl);
	}
	std::sort(all.begin(), all.end());
	std::vector<Span> merged;
	for (const Span &span : all)
		if (!merged.empty() && span.first <= merged.back().second)
			merged.back().second = std::max(merged.back().second, span.second);
		else
			merged.push_back(span);
	return merged;
}

bool
Coordination::covers(const std::vector<Span> &spans, Time from, Time to)
{
	return std::any_of(spans.begin(), spans.end(),
					   [&](const Span &span) { return span.first <= from && to <= span.second; });
}

/*
 * Return the latest time until which the lock can have been held, as of that usage, if the server's
 * memory was not lost in between.
 */
Time
Coordination::latest_end(const Grant &grant, const Usage &usage)
{
	if (usage.epoch != grant.epoch)
		return INT64_MAX;
	Time end = grant.received + grant.ttl;
	for (const UsageRef &other : grant.usages)
		if (other->use == Use::kExtend && other->sent <= usage.sent && !other->refused)
		{
			if (other->epoch != grant.epoch || !other->accepted)
				return INT64_MAX;
			end = std::max(end, other->answered + other->ttl);
		}
	return end;
}

/* Return whether the transaction has taken the lock, or has used it before. */
bool
Coordination::relied_on_by(const Grant &grant, const TxRef &tx, Time sent)
{
	return grant.taker == tx ||
		   std::any_of(grant.usages.begin(), grant.usages.end(), [&](const UsageRef &usage) {
			   return usage->tx == tx && usage->accepted && usage->sent < sent;
		   });
}

/* ---- the rules ---- */

/* There must be no more holders at a time than slots. */
void
Coordination::check_holders(const std::vector<GrantRef> &grants)
{
	struct Held
	{
		GrantRef grant;
		std::vector<Span> spans;
	};
	std::map<std::string, std::vector<Held>> buckets;
	for (const GrantRef &grant : grants)
		if (!grant->bucket.empty())
			buckets[grant->bucket].push_back({grant, spans(*grant)});
	for (const auto &[bucket, held] : buckets)
		for (const Held &one : held)
			for (const Span &span : one.spans)
			{
				std::string others;
				int n = 0;
				for (const Held &other : held)
					if (other.grant != one.grant && covers(other.spans, span.first, span.first + 1))
					{
						others += describe(*other.grant);
						n++;
					}
				if (n >= one.grant->of.slots)
					ledger.breach(std::to_string(n + 1) + " holders at " +
									  std::to_string((span.first - ledger.start) / 1000) +
									  " ms:\n" + describe(*one.grant) + others,
								  nullptr);
			}
}

void
Coordination::check_usages(const std::vector<GrantRef> &grants, const Grant &grant)
{
	bool may_share = grant.of.slots > 1 || grant.of.is_run;
	int ends = 0;
	for (const UsageRef &usage : grant.usages)
	{
		if (usage->refused)
		{
			bool knows = usage->tx == grant.taker || (is_certain(grant.taker, grant.undone) &&
													  grant.taker->committed_at < usage->sent);
			if (knows && covers(spans(grant), usage->sent, usage->answered))
				ledger.breach("refused at " +
								  std::to_string((usage->answered - ledger.start) / 1000) +
								  " ms, but it was held:\n" + describe(grant),
							  nullptr);
			continue;
		}
		if (!usage->accepted)
			continue;
		std::string when =
			"accepted at " + std::to_string((usage->answered - ledger.start) / 1000) + " ms, ";
		if (is_void(grant.taker, grant.undone) && grant.taker->committed_at == 0 &&
			grant.taker != usage->tx)
			ledger.breach(when + "but it was never committed:\n" + describe(grant), nullptr);
		if (latest_end(grant, *usage) < usage->sent && !relied_on_by(grant, usage->tx, usage->sent))
			ledger.breach(when + "but its time was over:\n" + describe(grant), nullptr);
		bool ended = is_certain(usage->tx, usage->undone) && grant.ends_by(usage->use);
		ends += ended;
		for (const UsageRef &end : grant.usages)
			if (grant.ends_by(end->use) && end->accepted && is_certain(end->tx, end->undone) &&
				end->tx->committed_at < usage->sent)
				ledger.breach(when + "but it had been given back:\n" + describe(grant), nullptr);
		for (const GrantRef &later : grants)
			if (!may_share && later->token > grant.token &&
				is_certain(later->taker, later->undone) && later->taker->committed_at < usage->sent)
				ledger.breach(when + "but somebody else has it:\n" + describe(grant) +
								  describe(*later),
							  nullptr);
	}
	if (ends > 1)
		ledger.breach("given back twice:\n" + describe(grant), nullptr);
}

/* Check that a run is done once for each name and period, and not begun again after it is done. */
void
Coordination::check_done(const std::vector<GrantRef> &grants)
{
	for (const GrantRef &grant : grants)
		for (const UsageRef &usage : grant->usages)
		{
			if (usage->use != Use::kDone || !usage->accepted ||
				!is_certain(usage->tx, usage->undone))
				continue;
			if (grant->bucket.empty())
				ledger.breach("done, but its row was another's:\n" + describe(*grant), nullptr);
			auto [place, first] =
				done.try_emplace({grant->of.name, grant->bucket}, Done{usage->tx, grant->token});
			if (!first && place->second.token != grant->token)
				ledger.breach("done twice, with token " + std::to_string(place->second.token) +
								  " as well:\n" + describe(*grant),
							  nullptr);
		}
	for (const GrantRef &grant : grants)
	{
		auto found = done.find({grant->of.name, grant->bucket});
		if (found != done.end() && found->second.token != grant->token &&
			found->second.tx->committed_at < grant->sent)
			ledger.breach("begun, but it was done before with token " +
							  std::to_string(found->second.token) + ":\n" + describe(*grant),
						  nullptr);
	}
}

/* Check all rules. May be called while actors are at work: only certain facts are used. */
void
Coordination::audit()
{
	std::lock_guard lock(ledger.mutex);
	for (const auto &[name, grants] : names)
	{
		check_holders(grants);
		for (const GrantRef &grant : grants)
			check_usages(grants, *grant);
		if (!grants.empty() && grants[0]->of.is_run)
			check_done(grants);
	}
	prune();
}

void
Coordination::prune()
{
	Time horizon = now() - kRememberAnswers;
	auto has_ended = [](const TxRef &tx) {
		return tx->state == TxState::kCommitted || tx->state == TxState::kAborted;
	};
	for (auto &[name, grants] : names)
	{
		int64_t &greatest = forgotten[name];
		std::erase_if(grants, [&](const GrantRef &grant) {
			bool over = grant->received < horizon && has_ended(grant->taker);
			for (const UsageRef &usage : grant->usages)
				over = over && usage->sent < horizon && has_ended(usage->tx);
			if (over)
				greatest = std::max(greatest, grant->token);
			return over;
		});
	}
}

std::set<std::pair<std::string, std::string>>
Coordination::done_runs()
{
	std::lock_guard lock(ledger.mutex);
	std::set<std::pair<std::string, std::string>> all;
	for (const auto &[run, by] : done)
		all.insert(run);
	return all;
}

static const char *
name_of(const TxRef &tx)
{
	switch (tx->state)
	{
		case TxState::kOpen:
			return "open";
		case TxState::kEnding:
			return "ending";
		case TxState::kPrepared:
			return "prepared";
		case TxState::kCommitted:
			return "committed";
		case TxState::kAborted:
			return "aborted";
	}
	return "";
}

std::string
Coordination::describe(const Grant &grant)
{
	static const char *const uses[] = {"assert", "extend", "unlock", "done"};
	std::ostringstream out;
	out << "  " << grant.of.name << " " << grant.bucket << " token " << grant.token << ", server "
		<< grant.epoch.server << "/" << grant.epoch.start << ", asked at " << grant.sent / 1000
		<< ", got at " << grant.received / 1000 << " for " << grant.ttl / 1000
		<< " ms in transaction " << grant.taker->id << " (" << name_of(grant.taker)
		<< (grant.undone != INT64_MAX ? ", undone" : "") << ", ending sent at "
		<< grant.taker->ending_sent / 1000 << ", known at " << grant.taker->committed_at / 1000
		<< ")\n";
	for (const UsageRef &usage : grant.usages)
		out << "    " << uses[static_cast<int>(usage->use)] << " sent at " << usage->sent / 1000
			<< ", "
			<< (usage->accepted	 ? "accepted"
				: usage->refused ? "refused"
								 : "not answered")
			<< " at " << usage->answered / 1000 << ", for " << usage->ttl / 1000
			<< " ms, in transaction " << usage->tx->id << " (" << name_of(usage->tx)
			<< (usage->undone != INT64_MAX ? ", undone" : "") << ", known at "
			<< usage->tx->committed_at / 1000 << ", server " << usage->epoch.server << "/"
			<< usage->epoch.start << ")\n";
	for (const Span &span : spans(grant))
		out << "    held from " << span.first / 1000 << " to " << span.second / 1000 << "\n";
	return out.str();
}

} // namespace torture
