#include "engine/token.h"

#include "engine/database.h"

namespace pgq {

int64
prefix_of_clock()
{
	return (wall_now() - kYear2020) / 1000;
}

int64
last_prefix_drawn()
{
	return last_prefix(pg_atomic_read_u64(&shared->last_prefix));
}

/* Return the durable mark, even if the stored value is closed (closed_mark()). */
static int64
durable_mark(const Database *db)
{
	auto mark = static_cast<int64>(value_of(db->marked_token));
	return Max(mark, ~mark);
}

int64
draw_token(Database *db, int64 job_id)
{
	int64 now = Min(prefix_of_clock(), greatest_prefix_below(durable_mark(db)));
	uint64 last = pg_atomic_read_u64(&shared->last_prefix);
	int64 prefix;
	do
		prefix = Max(now, last_prefix(last));
	while (last != drawn(prefix) &&
		   !pg_atomic_compare_exchange_u64(&shared->last_prefix, &last, drawn(prefix)));
	return token_of(prefix, check_bits(db->token_key, job_id, prefix));
}

bool
is_above_mark(const Database *db, int64 token)
{
	return token > durable_mark(db);
}

static void
raise_last(uint64 floor)
{
	uint64 last = pg_atomic_read_u64(&shared->last_prefix);
	while (last < floor && !pg_atomic_compare_exchange_u64(&shared->last_prefix, &last, floor))
		;
}

int64
draw_lock_token(const Database *db)
{
	int64 now = Min(prefix_of_clock(), greatest_prefix_below(durable_mark(db)));
	int64 prefix = Max(now, last_prefix_drawn());
	uint64 last = pg_atomic_read_u64(&shared->last_lock_token);
	uint64 token;
	do
		token = Max(last + 1, static_cast<uint64>(token_of(prefix, 0)));
	while (!pg_atomic_compare_exchange_u64(&shared->last_lock_token, &last, token));
	/*
	 * If the clock was set back, the new token may be ahead of the clock. A new token mark is
	 * computed from the clock or from the last prefix, whichever is greater. So raise the last
	 * prefix to that of the token: otherwise a later mark could be below the token.
	 */
	raise_last(undrawn(prefix_of(static_cast<int64>(token))));
	return static_cast<int64>(token);
}

void
pass_prefix(int64 prefix)
{
	raise_last(undrawn(prefix + 1));
}

/*
 * Return the first prefix of which no token exists. Later tokens have this prefix or a greater one.
 */
static int64
pass_drawn_prefix()
{
	uint64 last = pg_atomic_read_u64(&shared->last_prefix);
	while (last != passed(last) &&
		   !pg_atomic_compare_exchange_u64(&shared->last_prefix, &last, passed(last)))
		;
	return last_prefix(passed(last));
}

/*
 * Limit the fence to the durable mark. Right after a start, prefixes are above the mark, and the
 * next start may begin with smaller prefixes: a fence above the mark could refuse tokens of that
 * start.
 */
int64
fence_below(const Database *db, int64 prefix)
{
	return Min(greatest_of(prefix - 1), durable_mark(db));
}

int64
cut_tokens(const Database *db)
{
	return fence_below(db, pass_drawn_prefix());
}

/*
 * Begin above the durable mark, by a distance that differs from start to start. After a failover
 * that has lost the newest mark, this server then begins with other tokens than the lost primary.
 */
int64
begin_prefixes(int64 token_mark)
{
	static constexpr int64 kSpread = 1 << 16;
	int64 above_mark = prefix_of(token_mark) + 1 + wall_now() % kSpread;
	raise_last(undrawn(Max(above_mark, prefix_of_clock())));
	return pass_drawn_prefix();
}

} // namespace pgq
