/*
 * What the caller of pgq_enqueue, or an element of pgq_enqueue_many, says of a job.
 *
 * One table names all that can be said: both functions decode from it, and the row is filled from
 * it. One more attribute of a job is a line of that table, a column (core/ring.h) and the schema.
 */
#pragma once

#include "rows/insert.h"

namespace pgq {

inline constexpr int kJobAttributes = 12;

/* For each attribute its value, if it was given. */
struct JobSpec
{
	Datum values[kJobAttributes];
	bool given[kJobAttributes];
};

/* What is to be done if a job has the unique key already. */
enum class OnConflict : uint8
{
	kKeep,
	kReplace,
	kPreserveRunAt,
	kAppend,
	kError,
};

struct KeyRules
{
	const text *key; /* NULL: none */
	bool until_claimed;
	OnConflict on_conflict;
	TimestampTz until; /* it is nobody else's before; 0: as soon as the job has ended */
};

struct JobAttribute
{
	const char *name; /* the argument, the key */
	Oid type;		  /* JSONB, INT4, INTERVAL, TIMESTAMPTZ or TEXT */
	JobColumn column; /* kBeforeJobColumns: it is no column */
	/* The value of the column, checked as of now. NULL: it is written as it was given. */
	Datum (*column_value)(const JobSpec &spec, Datum value, TimestampTz now);
	bool required;
};

/* In the order of the arguments of pgq_enqueue, behind the queue. */
extern const JobAttribute job_attributes[kJobAttributes];

/* Its value of that name. */
void set_attribute(JobSpec *spec, const char *name, Datum value);
bool find_attribute(const JobSpec &spec, const char *name, Datum *value);

/* The row of such a job. Errors: 22023. */
NewJob job_of(int32 queue_id, const JobSpec &spec, TimestampTz now);

/* Errors: 22023. */
KeyRules key_rules(const JobSpec &spec, TimestampTz now);

} // namespace pgq
