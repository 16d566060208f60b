CREATE SCHEMA pgboss;
CREATE TYPE pgboss.job_state AS ENUM ('created', 'retry', 'active', 'completed', 'cancelled', 'failed');
CREATE TABLE pgboss.job (id uuid NOT NULL DEFAULT gen_random_uuid(), name text NOT NULL, priority int NOT NULL DEFAULT 0, data jsonb,
	state pgboss.job_state NOT NULL DEFAULT 'created', retry_limit int NOT NULL DEFAULT 2, retry_count int NOT NULL DEFAULT 0,
	start_after timestamptz NOT NULL DEFAULT now(), started_on timestamptz, created_on timestamptz NOT NULL DEFAULT now(), completed_on timestamptz,
	PRIMARY KEY (name, id)) PARTITION BY LIST (name);
CREATE TABLE pgboss.job_mail PARTITION OF pgboss.job FOR VALUES IN ('mail');
