/*
 * The extension's tables in this database, found once and remembered until the
 * relation cache says that something changed.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

inline constexpr int kMaxSegments = 8;

/* Columns of pgq_ext.job, in their order. */
enum JobColumn : AttrNumber
{
	kJobId = 1,
	kJobRunAt,
	kJobEnqueuedAt,
	kJobQueueId,
	kJobPriority,
	kJobAttempts,
	kJobSegment,
	kJobMaxAttempts,
	kJobExpiresAt,
	kJobFence,
	kJobGroupKey,
	kJobUniqueKey,
	kJobHeaders,
	kJobPayload,
	kJobLastError,
};
inline constexpr int kJobColumns = kJobLastError;

struct Segment
{
	int number;
	Oid heap;
	Oid by_id;		 /* unique (job_id) */
	Oid by_order;	 /* (queue_id, priority DESC, run_at, job_id) */
	Oid by_run_at;	 /* (queue_id, run_at, job_id) WHERE run_at > enqueued_at */
	bool has_others; /* indexes that somebody else has added */
};

struct Tables
{
	Oid owner;
	Oid queue;
	Oid queue_by_name;
	Oid job;
	Oid job_id_seq;
	Oid dead_job;
	Oid token_mark;
	int segments;
	Segment segment[kMaxSegments];
	Database *database; /* this database's slot */
	uint32 database_generation;
};

/* Error 55000 when not preloaded, 42704 when the extension is not installed here. */
const Tables &tables();

/* Is the extension installed in this database? Never an error. */
bool extension_installed();

/* The segment with that number, or NULL. */
const Segment *segment_by_number(int number);

/* The segment new rows go to. */
const Segment &current_segment();

/* The first pgq_create_queue makes the segments: ordinary tables, so that pg_dump locks and dumps them. */
void create_segments();

/* The durable mark: no token above it was ever handed out, as far as the scheduler kept up. */
int64 read_token_mark();

} // namespace pgq
