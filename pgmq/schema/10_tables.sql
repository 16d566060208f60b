-- pgmq: message queues with the interface of pgmq, on the job queue pgq_ext.
-- This script is concatenated from pgmq/schema/*.sql.

\echo Use "CREATE EXTENSION pgmq CASCADE" to load this file. \quit

DO $$
BEGIN
    IF pg_catalog.to_regprocedure('pgq_ext.lease_of(bigint)') IS NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'extension "pgmq" needs version 0.2 of extension "pgq_ext"',
            HINT = 'Run ALTER EXTENSION pgq_ext UPDATE.';
    END IF;
END $$;

CREATE TABLE pgmq.meta (
    queue_name     varchar UNIQUE NOT NULL,
    is_partitioned boolean NOT NULL,
    is_unlogged    boolean NOT NULL,
    created_at     timestamptz DEFAULT now() NOT NULL
);
COMMENT ON TABLE pgmq.meta IS
'The queues, one row for each. is_partitioned and is_unlogged say how a queue was created. Only the archive of a queue is partitioned, and no queue is unlogged.';

-- The library reads the columns of this table by position: src/mq/queue.cpp. The columns `view` and `sequence` have the type
-- regclass, so a dump contains names: after a restore the view and the sequence have other OIDs.
CREATE TABLE pgmq.queue_slot (
    view     regclass PRIMARY KEY,
    slot     integer UNIQUE NOT NULL CHECK (slot BETWEEN 1 AND 8191),
    queue_id integer UNIQUE NOT NULL,
    sequence regclass UNIQUE NOT NULL
);
COMMENT ON TABLE pgmq.queue_slot IS
'For each view q_NAME: its slot, the queue of pgq_ext that has its messages as jobs, and the sequence of its message ids. The id of a job is slot * 2^40 + msg_id.';

-- Slots are given out one after the other, so the slot of a dropped queue is not used again soon.
CREATE SEQUENCE pgmq.next_slot AS integer MAXVALUE 8191 CYCLE;

-- This table and the next one have no foreign key to pgmq.meta: pg_restore -j loads the tables of an extension in any order.
-- The functions that write to them keep the queue from being dropped (pgmq._keep_queue).
CREATE UNLOGGED TABLE pgmq.notify_insert_throttle (
    queue_name           varchar UNIQUE NOT NULL,
    throttle_interval_ms integer DEFAULT 0 NOT NULL,
    last_notified_at     timestamptz DEFAULT pg_catalog.to_timestamp(0) NOT NULL
);
COMMENT ON TABLE pgmq.notify_insert_throttle IS
'The queues that send NOTIFY when a message is inserted, and the least time between two notifications, in milliseconds.';

-- compiled_regex is the pattern as a regular expression. Characters with a meaning in regular expressions are escaped; then
-- * becomes one segment, and # any text.
CREATE TABLE pgmq.topic_bindings (
    pattern        text NOT NULL,
    queue_name     text NOT NULL,
    bound_at       timestamptz DEFAULT now() NOT NULL,
    compiled_regex text GENERATED ALWAYS AS (
        '^' || replace(replace(regexp_replace(pattern, '([].+?(){}|\\^$[])', '\\\1', 'g'), '*', '[^.]+'), '#', '.*') || '$'
    ) STORED,
    CONSTRAINT topic_bindings_unique_pattern_queue UNIQUE (pattern, queue_name)
);
COMMENT ON TABLE pgmq.topic_bindings IS
'Bindings: a queue gets each message that is sent with a routing key which matches the pattern.';

SELECT pg_catalog.pg_extension_config_dump('pgmq.meta', '');
-- A view that was dropped without drop_queue() has no name, and its OID may belong to another relation after a restore.
SELECT pg_catalog.pg_extension_config_dump('pgmq.queue_slot', 'WHERE view IN (SELECT c.oid FROM pg_catalog.pg_class c)');
SELECT pg_catalog.pg_extension_config_dump('pgmq.next_slot', '');
SELECT pg_catalog.pg_extension_config_dump('pgmq.notify_insert_throttle', '');
SELECT pg_catalog.pg_extension_config_dump('pgmq.topic_bindings', '');

GRANT USAGE ON SCHEMA pgmq TO pg_monitor;
GRANT SELECT ON pgmq.meta, pgmq.queue_slot, pgmq.notify_insert_throttle, pgmq.topic_bindings TO pg_monitor;

CREATE TYPE pgmq.message_record AS (
    msg_id       bigint,
    read_ct      integer,
    enqueued_at  timestamptz,
    last_read_at timestamptz,
    vt           timestamptz,
    message      jsonb,
    headers      jsonb
);
COMMENT ON TYPE pgmq.message_record IS
'A message. read_ct: how often it was read. last_read_at: when it was read last. vt: the time from which it can be read again.';

CREATE TYPE pgmq.queue_record AS (
    queue_name     varchar,
    is_partitioned boolean,
    is_unlogged    boolean,
    created_at     timestamptz
);
COMMENT ON TYPE pgmq.queue_record IS 'A queue, as in pgmq.meta.';

CREATE TYPE pgmq.metrics_result AS (
    queue_name               text,
    queue_length             bigint,
    newest_msg_age_sec       integer,
    oldest_msg_age_sec       integer,
    total_messages           bigint,
    scrape_time              timestamptz,
    queue_visible_length     bigint,
    default_partition_length bigint
);
COMMENT ON TYPE pgmq.metrics_result IS
'Numbers of a queue. total_messages: how many message ids were given out. queue_visible_length: messages that can be read now. default_partition_length: how many messages of a partitioned archive are in its default partition, as estimated by the planner; NULL if the archive is not partitioned.';
