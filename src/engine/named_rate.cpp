#include "engine/named_rate.h"

#include "engine/database.h"
#include "pg/scope.h"

namespace pgq {

/* Under the rates lock. */
struct NamedRate
{
	RateKey key;
	bool used;
	int home;	/* the slot of the database that it is charged to */
	int64 life; /* each time that a rate comes to memory has its own */
	Gcra gcra;
};
static_assert(std::is_trivially_copyable_v<NamedRate>);

struct RateTable
{
	Quota common;
	int64 last_life;
	NamedRate rates[FLEXIBLE_ARRAY_MEMBER];
};

int64
rate_bytes()
{
	/* More than one entry: a part is kept for each database. */
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

/* A rate is found from where its name says on; it may be anywhere, since others come and go. */
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
		if (rate == nullptr)
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

/* Its place is another one's. */
static void
free_place(NamedRate *rate)
{
	if (!rate->used)
		return;
	discharge(&shared->databases[rate->home].rates, &shared->named_rates->common, max_rates);
	rate->used = false;
}

/* A place for a rate of that database: one that is free, or that of a rate that is full and counts where it would. */
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

bool
add_rate(Database *db, const RateKey &key, const RateSpec &spec)
{
	return with_rates(LW_EXCLUSIVE, [&] {
		if (find_rate(key) != nullptr)
			return true;
		NamedRate *rate = find_place(db, key, monotonic_now());
		if (rate == nullptr)
			return false;
		rate->key = key;
		rate->used = true;
		rate->home = static_cast<int>(db - shared->databases);
		rate->life = ++shared->named_rates->last_life;
		rate->gcra.restart(spec.permits, spec.period, spec.burst, db->rates_known_since);
		return true;
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
