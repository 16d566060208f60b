/*
 * The attributes of a job that a caller of pgq_enqueue, or an element of pgq_enqueue_many, can
 * give.
 *
 * One table names all attributes: both functions decode by it, and it says how to fill the row. A
 * new attribute needs a line in that table, a column (core/ring.h) and the schema.
 */
#pragma once

#include "rows/insert.h"

namespace pgq {

inline constexpr int kJobAttributes = 12;

/* The given attributes, in the order of job_attributes. */
struct JobSpec
{
	Datum values[kJobAttributes];
	bool given[kJobAttributes];
};

/* What to do if a job with the unique key exists. */
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
	const text *key; /* NULL: no unique key */
	bool until_claimed;
	OnConflict on_conflict;
	/* time until which the key stays taken (unique_for); 0: until the job has ended */
	TimestampTz until;
};

struct JobAttribute
{
	const char *name; /* name of the SQL argument and of the JSON key */
	Oid type;		  /* type of the argument: JSONB, INT4, INTERVAL, TIMESTAMPTZ or TEXT */
	JobColumn column; /* kBeforeJobColumns: no column of the job */
	/*
	 * Returns the checked value of the column, as of now. NULL: the column takes the argument as it
	 * is.
	 */
	Datum (*column_value)(const JobSpec &spec, Datum value, TimestampTz now);
	bool required;
};

/* In the order of the arguments of pgq_enqueue after `queue`. */
extern const JobAttribute job_attributes[kJobAttributes];

/* Set or get the attribute of that name. find_attribute() returns whether it is given. */
void set_attribute(JobSpec *spec, const char *name, Datum value);
bool find_attribute(const JobSpec &spec, const char *name, Datum *value);

/* Return the row of the job to insert. Raises 22023. */
NewJob job_of(int32 queue_id, const JobSpec &spec, TimestampTz now);

/* Return the rules for the unique key. Raises 22023. */
KeyRules key_rules(const JobSpec &spec, TimestampTz now);

} // namespace pgq
