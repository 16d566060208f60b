/*
 * The attributes of a job that a caller can set, by arguments of pgq_enqueue or by keys in
 * pgq_enqueue_many.
 *
 * One table lists all attributes. Both functions decode their input by this table, which also
 * defines how the row is filled. A new attribute needs a line in this table, a column (core/ring.h)
 * and the schema.
 */
#pragma once

#include "enqueue/parents.h"
#include "rows/insert.h"

namespace pgq {

inline constexpr int kJobAttributes = 16;

/* The values that the caller has given, in the order of job_attributes. */
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
	kAgain, /* as kError, but a unique_for period does not keep the key taken; no word of on_conflict */
};

struct KeyRules
{
	const text *key;	/* NULL: no unique key */
	bool until_claimed; /* unique_until is 'claimed' */
	OnConflict on_conflict;
	/* time until which the key stays taken (unique_for); 0: until the job has ended */
	TimestampTz until;
};

struct JobAttribute
{
	const char *name; /* name of the SQL argument and of the JSON key */
	/*
	 * type of the argument: JSONB, INT4, INT8, INTERVAL, TIMESTAMPTZ, TEXT or INT8ARRAY. The value of
	 * an INT8ARRAY in a JobSpec is a pointer to a ParentList.
	 */
	Oid type;
	JobColumn column; /* kBeforeJobColumns: no column stores this attribute */
	/*
	 * Returns the checked value to store in the column, computed as of `now`. NULL: the column gets
	 * the argument unchanged.
	 */
	Datum (*column_value)(const JobSpec &spec, Datum value, TimestampTz now);
	bool required;
	bool only_enqueue; /* schedules and callbacks of batches cannot set it */
};

/* All attributes, in the order of the arguments of pgq_enqueue after `queue`. "ref" is no argument. */
extern const JobAttribute job_attributes[kJobAttributes];

/*
 * set_attribute() sets the attribute of that name. find_attribute() reads the value, and returns
 * false if the attribute was not set.
 */
void set_attribute(JobSpec *spec, const char *name, Datum value);
bool find_attribute(const JobSpec &spec, const char *name, Datum *value);

/* Return the parents of the job, or NULL if it has none. */
const ParentList *parents_of(const JobSpec &spec);

/* Return what happens if a parent of the job fails. Raises 22023. */
OnFailure on_parent_failure(const JobSpec &spec);

/* Return the name of the job in its call, or NULL. Raises 22023. */
const text *ref_of(const JobSpec &spec);

/* Return the unique key as it was given, or NULL. */
const text *unique_key_of(const JobSpec &spec);

/* Convert an argument of type bigint[] to the value of a JobSpec. */
Datum parents_of_argument(Datum *ids, int n);

/* Return the row of the job to insert. Raises 22023. */
NewJob job_of(int32 queue_id, const JobSpec &spec, TimestampTz now);

/* Return the rules for the unique key. Raises 22023. */
KeyRules key_rules(const JobSpec &spec, TimestampTz now);

} // namespace pgq
