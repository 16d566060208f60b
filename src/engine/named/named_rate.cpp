#include "engine/named/named_rate.h"

#include "engine/database.h"
#include "pg/scope.h"

namespace pgq {

namespace {
/* A rate in memory. Protected by the rates lock. */
struct NamedRate
{
	RateKey key;
	bool used;
	bool unread; /* restored after a start, and not yet compared with its row */
	int home;	 /* number of the database slot to which the entry is charged */
	int64 life;	 /* a new number each time a rate is brought to memory */
	Gcra gcra;
};
static_assert(std::is_trivially_copyable_v<NamedRate>);

} // namespace

struct RateTable
{
	Quota common;
	int64 last_life;
	NamedRate rates[FLEXIBLE_ARRAY_MEMBER];
};

int64
rate_bytes()
{
	/*
	 * Raising the setting by one rate adds more than one entry, since the own parts of all
	 * databases grow, too (quota.h).
	 */
	return sizeof(NamedRate) * static_cast<int64>(quota_entries(max_rates)) / max_rates;
}

Size
named_rates_size()
{
	return add_size(offsetof(RateTable, rates),
					mul_size(quota_entries(max_rates), sizeof(NamedRate)));
}

void
place_named_rates(void *memory)
{
	memset(memory, 0, named_rates_size());
	shared->named_rates = static_cast<RateTable *>(memory);
}

/*
 * Return the first entry for which `wanted` returns true. A rate may be at any place, so search all
 * places, beginning at the place given by the hash of the name.
 */
template <typename Visit>
static NamedRate *
find_rate(const RateKey &key, Visit wanted)
{
	uint32 start = hash_of_name(key.database, key.name);
	int places = quota_entries(max_rates);
	for (int i = 0; i < places; i++)
	{
		NamedRate *rate = &shared->named_rates->rates[(start + i) % places];
		if (wanted(*rate))
			return rate;
	}
	return nullptr;
}

static NamedRate *
find_rate(const RateKey &key)
{
	return find_rate(key, [&](const NamedRate &rate) { return rate.used && rate.key == key; });
}

template <typename Body>
static auto
with_rates(LWLockMode mode, Body body)
{
	return with_lwlock(shared->rates_lock, mode, body);
}

RateTaken
take_permits(const RateKey &key, int64 permits, int64 wait)
{
	return with_rates(LW_EXCLUSIVE, [&]() -> RateTaken {
		NamedRate *rate = find_rate(key);
		if (rate == nullptr || rate->unread)
			return {.answer = RateAnswer::kUnknown};
		Gcra &gcra = rate->gcra;
		RateTaken taken{.answer = RateAnswer::kTooMany, .burst = gcra.burst(), .life = rate->life};
		if (permits > gcra.burst())
			return taken;
		int64 now = monotonic_now();
		taken.at = gcra.earliest(permits, now);
		taken.answer = taken.at - now <= wait ? RateAnswer::kTaken : RateAnswer::kLater;
		if (taken.answer == RateAnswer::kTaken)
			taken.taken = gcra.take(permits, taken.at);
		return taken;
	});
}

bool
is_same_rate(const RateKey &key, int64 life)
{
	return with_rates(LW_SHARED, [&] {
		NamedRate *rate = find_rate(key);
		return rate != nullptr && rate->life == life;
	});
}

void
give_back_permits(const RateKey &key, int64 permits, int64 taken)
{
	with_rates(LW_EXCLUSIVE, [&] {
		if (NamedRate *rate = find_rate(key))
			rate->gcra.give_back(permits, taken);
	});
}

/* Free the entry of a rate. */
static void
free_place(NamedRate *rate)
{
	if (!rate->used)
		return;
	discharge(&shared->databases[rate->home].rates, &shared->named_rates->common, max_rates);
	rate->used = false;
}

/*
 * Return an unused entry for a rate of that database; NULL: none. If the database may have no more
 * rates, a full rate gives up its entry: a rate that is charged to the common part, or a rate of
 * this database.
 */
static NamedRate *
find_place(Database *db, const RateKey &key, int64 now)
{
	Quota &common = shared->named_rates->common;
	auto full = [&](bool ours) {
		NamedRate *rate = find_rate(key, [&](const NamedRate &rate) {
			const Database &home = shared->databases[rate.home];
			return rate.used && rate.gcra.full_at() <= now &&
				   (ours ? &home == db : home.rates.used > own_part(max_rates));
		});
		if (rate != nullptr)
			free_place(rate);
		return rate != nullptr;
	};
	if (left_of_quota(db->rates, common, max_rates) == 0 && !full(false) && !full(true))
		return nullptr;
	(void) charge(&db->rates, &common, max_rates);
	return find_rate(key, [](const NamedRate &rate) { return !rate.used; });
}

/* Make an entry for the rate. Return NULL if all entries are in use. */
static NamedRate *
new_rate(Database *db, const RateKey &key)
{
	NamedRate *rate = find_place(db, key, monotonic_now());
	if (rate == nullptr)
		return nullptr;
	rate->key = key;
	rate->used = true;
	rate->home = static_cast<int>(db - shared->databases);
	rate->life = ++shared->named_rates->last_life;
	rate->unread = false;
	return rate;
}

/*
 * Compare a restored rate with its row. If SQL has changed the row, the rate begins empty
 * (named_rate.h).
 */
static void
compare_with_row(NamedRate *rate, const RateSpec &spec)
{
	if (!rate->unread)
		return;
	Gcra gcra;
	gcra.restart(spec.permits, spec.period, spec.burst, monotonic_now());
	if (gcra.interval() != rate->gcra.interval() || gcra.burst() != rate->gcra.burst())
		rate->gcra = gcra;
	rate->unread = false;
}

bool
add_rate(Database *db, const RateKey &key, const RateSpec &spec)
{
	return with_rates(LW_EXCLUSIVE, [&] {
		NamedRate *rate = find_rate(key);
		if (rate != nullptr)
			compare_with_row(rate, spec);
		else if ((rate = new_rate(db, key)) != nullptr)
			rate->gcra.restart(spec.permits, spec.period, spec.burst, db->rates_known_since);
		return rate != nullptr;
	});
}

void
forget_rate(const RateKey &key)
{
	with_rates(LW_EXCLUSIVE, [&] {
		if (NamedRate *rate = find_rate(key))
			free_place(rate);
		for (int i = 0; i < max_databases; i++)
			if (shared->databases[i].oid == key.database)
				shared->databases[i].rates_known_since = monotonic_now();
	});
}

void
free_rates(Oid database, Oid incarnation)
{
	with_rates(LW_EXCLUSIVE, [&] {
		for (int i = 0; i < quota_entries(max_rates); i++)
		{
			NamedRate &rate = shared->named_rates->rates[i];
			if (rate.key.database == database && rate.key.incarnation == incarnation)
				free_place(&rate);
		}
	});
}

/* ---- saved and restored ---- */

template <typename Visit>
static void
for_each_rate(const Database *db, Visit visit)
{
	with_rates(LW_SHARED, [&] {
		for (int i = 0; i < quota_entries(max_rates); i++)
		{
			const NamedRate &rate = shared->named_rates->rates[i];
			if (rate.used && rate.key.database == db->oid &&
				rate.key.incarnation == db->incarnation)
				visit(rate);
		}
	});
}

int
room_for_rates(const Database *db)
{
	int n = 0;
	for_each_rate(db, [&](const NamedRate &) { n++; });
	return n > 0 ? n + 1 : 0;
}

int
save_rates(const Database *db, SavedRate *saved, int most)
{
	int64 now = monotonic_now();
	int n = 0;
	if (most > 0)
		saved[n++] = {.remaining = Min(0, db->rates_known_since - now)};
	for_each_rate(db, [&](const NamedRate &rate) {
		if (n < most)
		{
			saved[n] = {.interval = rate.gcra.interval(),
						.burst = static_cast<int32>(rate.gcra.burst()),
						.remaining = Max(0, rate.gcra.full_at() - now)};
			strlcpy(saved[n].name, rate.key.name, sizeof(saved[n].name));
		}
		n++;
	});
	return n <= most ? n : 0;
}

static bool
restore_rate(Database *db, const SavedRate &saved, int64 now)
{
	RateKey key = {.database = db->oid, .incarnation = db->incarnation};
	strlcpy(key.name, saved.name, sizeof(key.name));
	NamedRate *rate = find_rate(key) == nullptr ? new_rate(db, key) : nullptr;
	if (rate == nullptr)
		return false;
	rate->unread = true;
	rate->gcra.restore(saved.interval, saved.burst, now + saved.remaining);
	return true;
}

void
restore_rates(Database *db, const SavedRate *saved, int n)
{
	with_rates(LW_EXCLUSIVE, [&] {
		int64 now = monotonic_now();
		int64 known_since = now;
		bool all = true;
		for (int i = 0; i < n; i++)
			if (saved[i].name[0] == '\0')
				known_since = now + saved[i].remaining;
			else
				all = restore_rate(db, saved[i], now) && all;
		db->rates_known_since = all ? known_since : now;
	});
}

bool
may_be_restored_again(const Database *db)
{
	/*
	 * Once the mark was advanced after the load, its prefix is not below the first prefix of the
	 * load.
	 */
	return prefix_of(static_cast<int64>(value_of(db->marked_token))) < db->base_prefix;
}

int
copy_rates(Oid database, Oid incarnation, RateCopy *copies, int most)
{
	return with_rates(LW_SHARED, [&] {
		int n = 0;
		int64 now = monotonic_now();
		for (int i = 0; i < quota_entries(max_rates) && n < most; i++)
		{
			const NamedRate &rate = shared->named_rates->rates[i];
			if (rate.used && rate.key.database == database && rate.key.incarnation == incarnation)
				copies[n++] = {rate.key, rate.gcra.available(now), rate.gcra.earliest(1, now)};
		}
		return n;
	});
}

Quota
common_rates()
{
	return shared->named_rates->common;
}

} // namespace pgq
