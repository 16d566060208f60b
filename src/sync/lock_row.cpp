#include "sync/lock_row.h"

#include "catalog/owner_sql.h"
#include "pg/clock.h"

namespace pgq {

static SpiArgument
number(int64 value)
{
	return {INT8OID, Int64GetDatum(value), false};
}

static SpiArgument
words(const char *value)
{
	return {TEXTOID, CStringGetTextDatum(value), false};
}

static SpiArgument
moment(TimestampTz value)
{
	return {TIMESTAMPTZOID, TimestampTzGetDatum(value), false};
}

template <int n>
static bool
write(const char *sql, const SpiArgument (&arguments)[n])
{
	bool written = false;
	as_owner([&] { written = spi_execute(sql, arguments) > 0; });
	/* For what follows in the same statement. */
	CommandCounterIncrement();
	ForceSyncCommit();
	return written;
}

bool
write_lock_row(const LockKey &key, int32 slot, const Grant &grant, int64 before)
{
	static constexpr char kWrite[] =
		"INSERT INTO pgq_ext.held_lock AS l (name, period, bucket, slot, slots, token, owner, ttl, "
		"acquired_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) "
		"ON CONFLICT (name, period, bucket, slot) DO UPDATE SET slots = EXCLUDED.slots, "
		"token = EXCLUDED.token, owner = EXCLUDED.owner, ttl = EXCLUDED.ttl, "
		"acquired_at = EXCLUDED.acquired_at, expires_at = EXCLUDED.expires_at "
		"WHERE l.token OPERATOR(pg_catalog.=) $11";
	const SpiArgument arguments[] = {words(key.name),
									 number(key.period),
									 number(key.bucket),
									 number(slot),
									 number(grant.slots),
									 number(grant.token),
									 words(grant.owner),
									 number(grant.ttl),
									 moment(grant.acquired_at),
									 moment(wall_now() + grant.ttl),
									 number(before)};
	return write(kWrite, arguments);
}

#define THE_ROW                                                                  \
	"WHERE name OPERATOR(pg_catalog.=) $1 AND period OPERATOR(pg_catalog.=) $2 " \
	"AND bucket OPERATOR(pg_catalog.=) $3 AND slot OPERATOR(pg_catalog.=) $4 "   \
	"AND token OPERATOR(pg_catalog.=) $5"

/* After a start it is held for at most ttl: so that is never less than what is left, should that be more than it is extended by. */
bool
extend_lock_row(const LockKey &key, int32 slot, int64 token, int64 ttl)
{
	const SpiArgument arguments[] = {
		words(key.name), number(key.period), number(key.bucket),	  number(slot),
		number(token),	 number(ttl),		 moment(wall_now() + ttl)};
	bool extended = false;
	as_owner([&] {
		extended =
			spi_execute("UPDATE pgq_ext.held_lock SET ttl = $6 OPERATOR(pg_catalog.+) GREATEST(0, "
						"(EXTRACT(epoch FROM expires_at OPERATOR(pg_catalog.-) $7) "
						"OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8), "
						"expires_at = GREATEST(expires_at, $7) " THE_ROW,
						arguments) > 0;
	});
	/* For what follows in the same statement. */
	CommandCounterIncrement();
	ForceSyncCommit();
	return extended;
}

bool
delete_lock_row(const LockKey &key, int32 slot, int64 token)
{
	const SpiArgument arguments[] = {words(key.name), number(key.period), number(key.bucket),
									 number(slot), number(token)};
	return write("DELETE FROM pgq_ext.held_lock " THE_ROW, arguments);
}

} // namespace pgq
