/*
 * The columns of a watch: those of its key, and those in new and old.
 *
 * Look-ups read system caches and need no lock of the relation. So the view pgq_ext.watch never
 * waits.
 */
#pragma once

#include "row_changes/watch_trigger.h"

namespace pgq {

/* How a value becomes JSON. */
enum class JsonKind : uint8
{
	kBoolean,
	kInt2,
	kInt4,
	kInt8,
	kNumeric,
	kText,
	kBytea,
	kDateTime,
	kUuid,
	kJsonb,
	kOther, /* by to_jsonb() */
};

struct WatchedColumn
{
	NameData name;
	AttrNumber number;
	Oid type; /* of a domain: its base type */
	int16 length;
	bool by_value;
	JsonKind kind;
	bool in_key;
	bool in_image; /* new and old have it */
};

struct WatchedColumns
{
	bool all_columns; /* new and old have all columns */
	bool coalescing;  /* the jobs have neither new nor old */
	bool has_key;
	bool primary_key; /* the key is the primary key; there is none if has_key is false */
	/* no two rows of the table have the same key, not even during a statement */
	bool key_is_unique;
	/* in the order of the keys of a jsonb object */
	WatchedColumn *list;
	int n;
};

/*
 * Look the columns up, in the current memory context. Returns the first fault; then *columns is
 * incomplete.
 */
WatchFault read_watched_columns(const WatchTrigger &trigger, WatchedColumns *columns);

} // namespace pgq
