#include "sync/rate.h"

#include "catalog/owner_sql.h"
#include "catalog/token_mark.h"
#include "catalog/values.h"
#include "load/attach.h"
#include "pg/client.h"
#include "pg/clock.h"
#include "pg/wait_events.h"
#include "txn/lock.h"

namespace pgq {

/*
 * Return the key of the rate in the present incarnation: the extension may have been dropped and
 * created since the caller last looked.
 */
RateKey
rate_key_of(const char *name)
{
	AcceptInvalidationMessages();
	const Database *db = tables().database;
	RateKey key = {.database = db->oid, .incarnation = db->incarnation};
	strlcpy(key.name, name, sizeof(key.name));
	return key;
}

/*
 * Advance the durable token mark, also in a read-only transaction: the mark is not part of the
 * transaction. If advance_token_mark() raises an error, the abort resets XactReadOnly.
 */
static void
raise_mark()
{
	bool read_only = XactReadOnly;
	XactReadOnly = false;
	advance_token_mark(kTokenLead, true, synchronous_commit);
	XactReadOnly = read_only;
}

/*
 * Return the key for taking permits. If the rates were restored after a clean stop, a crash would
 * restore the same saved rates once more, without the permits that were taken since. So before the
 * first permits are taken, advance the token mark, which invalidates the rates that were saved with
 * the present mark.
 */
static RateKey
rate_key_to_take(const char *name)
{
	AcceptInvalidationMessages();
	while (may_be_restored_again(tables().database))
		raise_mark();
	return rate_key_of(name);
}

/* ---- definitions ---- */

bool
create_rate(const char *name, int32 permits, Datum period, int32 burst)
{
	const SpiArgument arguments[] = {{TEXTOID, CStringGetTextDatum(name), false},
									 {INT4OID, Int32GetDatum(permits), false},
									 {INTERVALOID, period, false},
									 {INT4OID, Int32GetDatum(burst), false}};
	bool created = false;
	as_owner([&] {
		created = spi_execute("INSERT INTO pgq_ext.rate_limit (name, permits, period, burst) "
							  "VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO NOTHING",
							  arguments) > 0;
	});
	CommandCounterIncrement();
	if (created)
		forget_rate_at_end(rate_key_of(name));
	return created;
}

bool
drop_rate(const char *name)
{
	const SpiArgument arguments[] = {{TEXTOID, CStringGetTextDatum(name), false}};
	bool dropped = false;
	as_owner([&] {
		dropped = spi_execute("DELETE FROM pgq_ext.rate_limit WHERE name OPERATOR(pg_catalog.=) $1",
							  arguments) > 0;
	});
	CommandCounterIncrement();
	if (dropped)
		forget_rate_at_end(rate_key_of(name));
	return dropped;
}

void
complain_of_rate(const char *name)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("rate \"%s\" does not exist", name),
		 errhint("See pgq_ext.rate for the existing rates. Use pgq_create_rate for a new one.")));
}

/* ---- taking ---- */

static bool
read_spec(const char *name, RateSpec *spec)
{
	const SpiArgument arguments[] = {{TEXTOID, CStringGetTextDatum(name), false}};
	bool found = false;
	as_owner([&] {
		found = spi_execute("SELECT permits, period, burst FROM pgq_ext.rate_limit "
							"WHERE name OPERATOR(pg_catalog.=) $1",
							arguments) > 0;
		if (found)
			*spec = {DatumGetInt32(spi_value(0, 1, INT4OID)),
					 duration(spi_value(0, 2, INTERVALOID), "period"),
					 DatumGetInt32(spi_value(0, 3, INT4OID))};
	});
	return found;
}

/*
 * Read the rate's row, load the rate into memory, and read the row again. A transaction that
 * creates or drops the rate commits its row first, and makes memory forget the rate afterwards. So
 * if both reads agree, memory has the right definition, or will soon forget the rate. The table
 * lock of the read keeps the extension from being dropped.
 */
static void
bring_to_memory(const char *name)
{
	RateSpec spec, again;
	if (!read_spec(name, &spec))
		complain_of_rate(name);
	RateKey key = rate_key_of(name);
	if (!add_rate(tables().database, key, spec))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("too many rates are in use at the same time"),
				 errhint("Raise pgq_ext.max_rates (now %d) and restart the server.", max_rates)));
	bool there = read_spec(name, &again);
	if (!there || again.permits != spec.permits || again.period != spec.period ||
		again.burst != spec.burst)
		forget_rate(key);
}

/* Sleep until `time` (monotonic). Returns whether this process has slept at all. */
static bool
sleep_until(int64 time)
{
	bool slept = false;
	for (int64 left; (left = time - monotonic_now()) > 0;)
	{
		slept = true;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 Min(left, USECS_PER_SEC) / 1000 + 1, wait_events.rate);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		check_client();
	}
	return slept;
}

static void
complain_of_burst(const char *name, int64 burst)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("permits is out of range"),
					errhint("Rate \"%s\" has a burst of %lld permits: a call can take no more.",
							name, static_cast<long long>(burst))));
}

/*
 * Answer a call that takes permits of a rate which this transaction itself has created or dropped,
 * which other sessions do not see yet. A dropped rate raises 42704. A new rate has no permits
 * before the commit, so the result is false, and a call with a wait raises 55000.
 */
static bool
take_own_rate(const char *name, int32 permits, int64 wait)
{
	RateSpec spec;
	if (!read_spec(name, &spec))
		complain_of_rate(name);
	if (permits > spec.burst)
		complain_of_burst(name, spec.burst);
	if (wait > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot wait for permits of a rate that this transaction has created"),
				 errhint("Commit this transaction first.")));
	return false;
}

/*
 * Take permits. While a caller waits, its permits are reserved, so that no other session takes them
 * first; if the wait ends early, the permits are given back. If the rate was dropped and created
 * during the wait, take permits again, since the permits of the old rate do not count for the new
 * rate.
 */
bool
take_rate(const char *name, int32 permits, int64 wait)
{
	/*
	 * Steps: ask memory; if memory lacks the rate, load it and ask again; sleep until the reserved
	 * time; check that the rate is still the same.
	 */
	int64 end = wait > 0 ? end_of_wait(wait) : 0;
	for (;;)
	{
		RateKey key = rate_key_to_take(name);
		if (changes_rate(key))
			return take_own_rate(name, permits, wait);
		RateTaken taken = take_permits(key, permits, wait > 0 ? Max(0, end - monotonic_now()) : 0);
		if (taken.answer == RateAnswer::kTooMany)
			complain_of_burst(name, taken.burst);
		if (taken.answer == RateAnswer::kLater)
			return false;
		if (taken.answer == RateAnswer::kTaken)
		{
			reserve_permits(key, permits, taken.taken);
			bool slept = sleep_until(taken.at);
			use_reservation();
			if (!slept || (is_same_rate(key, taken.life) && rate_key_of(name) == key))
				return true;
		}
		else
			bring_to_memory(name);
		CHECK_FOR_INTERRUPTS();
	}
}

} // namespace pgq
