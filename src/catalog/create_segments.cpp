#include "catalog/create_segments.h"

#include "catalog/owner_sql.h"
#include "catalog/ring_layout.h"
#include "catalog/tables.h"

namespace pgq {

void
create_segments()
{
	if (tables().segments > 0)
		return;
	require_complete_segments();
	for (int i = 0; i < kMaxSegments; i++)
	{
		spi_run("CREATE TABLE pgq_ext.job_%1$d PARTITION OF pgq_ext.job FOR VALUES IN (%1$d) "
				"WITH (vacuum_truncate = off)",
				i);
		spi_run("CREATE UNIQUE INDEX job_%1$d_by_id ON pgq_ext.job_%1$d (job_id)", i);
		spi_run("CREATE INDEX job_%1$d_by_order ON pgq_ext.job_%1$d (queue_id, priority DESC, "
				"run_at, job_id)",
				i);
		spi_run("CREATE INDEX job_%1$d_delayed ON pgq_ext.job_%1$d (queue_id, run_at, job_id) "
				"WHERE %2$s",
				i, kDelayed);
		spi_run("ALTER TABLE pgq_ext.job_%1$d REPLICA IDENTITY USING INDEX job_%1$d_by_id", i);
	}
	for (int i = kMaxSegments; i < kAllSegments; i++)
	{
		spi_run("CREATE TABLE pgq_ext.dead_job_%1$d PARTITION OF pgq_ext.dead_job FOR VALUES IN "
				"(%1$d) WITH (vacuum_truncate = off)",
				i);
		spi_run("CREATE UNIQUE INDEX dead_job_%1$d_by_id ON pgq_ext.dead_job_%1$d (job_id)", i);
		spi_run("CREATE INDEX dead_job_%1$d_by_order ON pgq_ext.dead_job_%1$d (queue_id, died_at)",
				i);
		spi_run("ALTER TABLE pgq_ext.dead_job_%1$d REPLICA IDENTITY USING INDEX "
				"dead_job_%1$d_by_id",
				i);
	}
	CommandCounterIncrement();
}

} // namespace pgq
