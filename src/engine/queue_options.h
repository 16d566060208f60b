/*
 * The options of a queue: the struct in use, and a table of all options. The table determines how
 * rows of pgq_ext.queue are read and checked (catalog/queue_row.*, catalog/option_value.*), which
 * arguments pgq_create_queue has, and how it writes the row. A new option needs a column and an
 * argument in src/schema, a line here, and the code that uses it.
 */
#pragma once

#include "core/backoff.h"
#include "pg/pg.h"

#include <type_traits>

namespace pgq {

/*
 * Limits of options, the same as in the CHECKs of pgq_ext.queue. kThousandYears is a thousand years
 * as the server compares intervals: a year has 12 months of 30 days.
 */
inline constexpr int64 kLeaseTimeMin = USECS_PER_SEC;
inline constexpr int64 kLeaseTimeMax = 7 * USECS_PER_DAY;
inline constexpr int64 kThousandYears = INT64CONST(1000) * 12 * DAYS_PER_MONTH * USECS_PER_DAY;

/* Which attempts get a record. */
enum class LogAttempts : uint8
{
	kNone,
	kFailed, /* failed and lost attempts */
	kAll,
};
inline constexpr const char *log_attempts_names[] = {"none", "failed", "all"};

struct QueueOptions
{
	int64 lease_time;  /* microseconds */
	int64 max_runtime; /* microseconds; 0: no limit */
	int32 max_attempts;
	BackoffOptions backoff;
	int32 concurrency;		 /* jobs in work at a time; 0: no limit */
	int32 group_concurrency; /* jobs of one group in work at a time; 0: no limit */
	int32 rate_limit;		 /* hand-outs in a period; 0: no limit */
	int64 rate_period;		 /* microseconds */
	int32 group_rate_limit;	 /* hand-outs of one group in a rate_period; 0: no limit */
	int64 max_depth;		 /* live jobs at a time; 0: no limit */
	/* how long records of attempts are kept, in microseconds; 0: no record is written */
	int64 keep_attempts;
	/* how long records of finished jobs are kept, in microseconds; 0: no record is written */
	int64 keep_finished;
	LogAttempts log_attempts;
	bool fifo; /* one job of a group at a time, in the order of enqueue */
	bool fair; /* groups take turns */
	bool notify;
	bool paused;
	/* a rollback of a claim gives its jobs back at once, and counts no attempt */
	bool undo_rolled_back_claims;

	bool operator==(const QueueOptions &) const = default;
};
static_assert(std::is_trivially_copyable_v<QueueOptions>);

/* The type and range of an option's value. */
enum class OptionKind : uint8
{
	kLeaseTime, /* kLeaseTimeMin to kLeaseTimeMax */
	kPeriod,	/* kLeaseTimeMin to kThousandYears */
	kRuntime,	/* 0, or kLeaseTimeMin to kThousandYears */
	kDuration,	/* 0 to kThousandYears */
	kCount,		/* 1 and more */
	kLimit,		/* 1 and more, or 0 for no limit */
	kLongLimit, /* kLimit, but a bigint */
	kShare,		/* 0 to 1 */
	kFlag,
	kLog, /* one of log_attempts_names */
};

constexpr Oid
type_of(OptionKind kind)
{
	switch (kind)
	{
		case OptionKind::kLeaseTime:
		case OptionKind::kPeriod:
		case OptionKind::kRuntime:
		case OptionKind::kDuration:
			return INTERVALOID;
		case OptionKind::kCount:
		case OptionKind::kLimit:
			return INT4OID;
		case OptionKind::kLongLimit:
			return INT8OID;
		case OptionKind::kShare:
			return FLOAT8OID;
		case OptionKind::kFlag:
			return BOOLOID;
		case OptionKind::kLog:
			return TEXTOID;
	}
	return InvalidOid;
}

struct QueueOption
{
	const char *name; /* name of the column, and of the argument of pgq_create_queue */
	OptionKind kind;
	/* default, as in the SQL declarations; a NULL in the row means this default */
	const char *initial;
	/* pgq_create_queue has this argument. If not, the column's default is used. */
	bool is_argument;
	size_t place; /* offset in QueueOptions, or kOnlyInSql */
};
/* `place` of an option that only SQL reads. */
inline constexpr size_t kOnlyInSql = SIZE_MAX;

/*
 * All options, in the order of the columns. The first kFirstOptions of them are columns of version
 * 0.1. The later ones are at the end of the table, and a database that was updated from 0.1 lacks
 * them until pgq_ext.add_queue_columns() is called; then they have their defaults.
 */
inline constexpr QueueOption queue_options[] = {
	{"lease_time", OptionKind::kLeaseTime, "5 min", true, offsetof(QueueOptions, lease_time)},
	{"max_runtime", OptionKind::kRuntime, "0", true, offsetof(QueueOptions, max_runtime)},
	{"max_attempts", OptionKind::kCount, "20", true, offsetof(QueueOptions, max_attempts)},
	{"backoff_base", OptionKind::kDuration, "1 s", true, offsetof(QueueOptions, backoff.base)},
	{"backoff_max", OptionKind::kDuration, "1 h", true, offsetof(QueueOptions, backoff.max)},
	{"backoff_jitter", OptionKind::kShare, "0.2", true, offsetof(QueueOptions, backoff.jitter)},
	{"concurrency", OptionKind::kLimit, "0", true, offsetof(QueueOptions, concurrency)},
	{"rate_limit", OptionKind::kLimit, "0", true, offsetof(QueueOptions, rate_limit)},
	{"rate_period", OptionKind::kPeriod, "1 s", true, offsetof(QueueOptions, rate_period)},
	{"group_rate_limit", OptionKind::kLimit, "0", true, offsetof(QueueOptions, group_rate_limit)},
	{"group_concurrency", OptionKind::kLimit, "0", true, offsetof(QueueOptions, group_concurrency)},
	{"fifo", OptionKind::kFlag, "false", true, offsetof(QueueOptions, fifo)},
	{"fair", OptionKind::kFlag, "false", true, offsetof(QueueOptions, fair)},
	{"max_depth", OptionKind::kLongLimit, "0", true, offsetof(QueueOptions, max_depth)},
	{"log_attempts", OptionKind::kLog, "failed", true, offsetof(QueueOptions, log_attempts)},
	{"keep_attempts", OptionKind::kDuration, "7 days", true, offsetof(QueueOptions, keep_attempts)},
	{"keep_finished", OptionKind::kDuration, "0", true, offsetof(QueueOptions, keep_finished)},
	{"keep_dead", OptionKind::kDuration, "30 days", true, kOnlyInSql},
	{"notify", OptionKind::kFlag, "true", true, offsetof(QueueOptions, notify)},
	{"paused", OptionKind::kFlag, "false", false, offsetof(QueueOptions, paused)},
	{"undo_rolled_back_claims", OptionKind::kFlag, "false", true,
	 offsetof(QueueOptions, undo_rolled_back_claims)},
};
inline constexpr int kQueueOptions = lengthof(queue_options);
inline constexpr int kFirstOptions = kQueueOptions - 1;

/* Return whether a database that was updated from version 0.1 may lack the column of option i. */
constexpr bool
is_later_option(int i)
{
	return i >= kFirstOptions;
}

} // namespace pgq
