#include "catalog/create_segments.h"

#include "catalog/owner_sql.h"
#include "catalog/tables.h"

namespace pgq {

/* Return a list such as "queue_id, priority DESC, run_at". */
static const char *
list_columns(const RingSpec &ring, const IndexSpec &index)
{
	StringInfoData list;
	initStringInfo(&list);
	for (const IndexColumn *column = index.columns; column->number != 0; column++)
		appendStringInfo(&list, "%s%s%s", list.len > 0 ? ", " : "",
						 ring.columns[column->number - 1].name, column->descending ? " DESC" : "");
	return list.data;
}

/*
 * Storage parameters of segments. Rotation removes the dead rows of segments. The thresholds are
 * above the number of rows of a full segment, so autovacuum processes a segment only if rotation
 * could not truncate it. Autovacuum to prevent wraparound runs in any case.
 */
static constexpr char kRarelyVacuumed[] =
	", autovacuum_vacuum_threshold = 1000000, autovacuum_vacuum_insert_threshold = -1"
	", autovacuum_analyze_threshold = 1000000, toast.autovacuum_vacuum_threshold = 1000000"
	", toast.autovacuum_vacuum_insert_threshold = -1";

static void
create_segment(const RingSpec &ring, int number)
{
	const char *name = psprintf("%s_%d", ring.table, number);
	spi_run("CREATE TABLE pgq_ext.%s PARTITION OF pgq_ext.%s FOR VALUES IN (%d) "
			"WITH (vacuum_truncate = off%s)",
			name, ring.table, number, is_truncated_by_time(ring_of(number)) ? "" : kRarelyVacuumed);
	for (int i = 0; i < kIndexes; i++)
	{
		const IndexSpec &index = ring.indexes[i];
		bool wanted = index.name != nullptr && (!is_new_index(i) || look_at_tables().has_batches);
		if (wanted)
			spi_run("CREATE %s %s_%s ON pgq_ext.%s (%s)%s%s", i == kById ? "UNIQUE INDEX" : "INDEX",
					name, index.name, name, list_columns(ring, index),
					index.predicate != nullptr ? " WHERE " : "",
					index.predicate != nullptr ? index.predicate : "");
	}
	spi_run("ALTER TABLE pgq_ext.%s REPLICA IDENTITY USING INDEX %s_%s", name, name,
			ring.indexes[kById].name);
}

void
create_segments()
{
	if (look_at_tables().has_segments)
		return;
	require_complete_segments();
	for (int i = 0; i < kAllSegments; i++)
		create_segment(rings[ring_of(i)], i);
	CommandCounterIncrement();
}

} // namespace pgq
