#include "engine/named_rate.h"

#include "pg/scope.h"

namespace pgq {

/* Under the rates lock. */
struct NamedRate
{
	RateKey key;
	bool used;
	int64 life; /* each time that a rate comes to memory has its own */
	Gcra gcra;
};
static_assert(std::is_trivially_copyable_v<NamedRate>);

struct RateTable
{
	int peak;
	int64 last_life;
	NamedRate rates[FLEXIBLE_ARRAY_MEMBER];
};

int64
rate_bytes()
{
	return sizeof(NamedRate);
}

Size
named_rates_size()
{
	return add_size(offsetof(RateTable, rates), mul_size(max_rates, sizeof(NamedRate)));
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
	for (int i = 0; i < max_rates; i++)
	{
		NamedRate *rate = &shared->named_rates->rates[(start + i) % max_rates];
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

bool
add_rate(const RateKey &key, const RateSpec &spec)
{
	return with_rates(LW_EXCLUSIVE, [&] {
		int64 now = monotonic_now();
		if (find_rate(key) != nullptr)
			return true;
		NamedRate *rate = find_rate(key, [](const NamedRate &rate) { return !rate.used; });
		/* One that could give all it has: nobody is using it much. */
		if (rate == nullptr)
			rate =
				find_rate(key, [&](const NamedRate &rate) { return rate.gcra.full_at() <= now; });
		if (rate == nullptr)
			return false;
		rate->key = key;
		rate->used = true;
		rate->life = ++shared->named_rates->last_life;
		rate->gcra.restart(spec.permits, spec.period, spec.burst, now);
		int used = 0;
		for (int i = 0; i < max_rates; i++)
			used += shared->named_rates->rates[i].used;
		shared->named_rates->peak = Max(shared->named_rates->peak, used);
		return true;
	});
}

void
forget_rate(const RateKey &key)
{
	with_rates(LW_EXCLUSIVE, [&] {
		if (NamedRate *rate = find_rate(key))
			rate->used = false;
	});
}

void
free_rates(Oid database, Oid incarnation)
{
	with_rates(LW_EXCLUSIVE, [&] {
		for (int i = 0; i < max_rates; i++)
		{
			NamedRate &rate = shared->named_rates->rates[i];
			if (rate.key.database == database && rate.key.incarnation == incarnation)
				rate.used = false;
		}
	});
}

int
copy_rates(Oid database, Oid incarnation, RateCopy *copies, int most)
{
	return with_rates(LW_SHARED, [&] {
		int n = 0;
		int64 now = monotonic_now();
		for (int i = 0; i < max_rates && n < most; i++)
		{
			const NamedRate &rate = shared->named_rates->rates[i];
			if (rate.used && rate.key.database == database && rate.key.incarnation == incarnation)
				copies[n++] = {rate.key, rate.gcra.available(now), rate.gcra.earliest(1, now)};
		}
		return n;
	});
}

int
use_of_rates(int *peak)
{
	return with_rates(LW_SHARED, [&] {
		int used = 0;
		for (int i = 0; i < max_rates; i++)
			used += shared->named_rates->rates[i].used;
		*peak = shared->named_rates->peak;
		return used;
	});
}

} // namespace pgq
