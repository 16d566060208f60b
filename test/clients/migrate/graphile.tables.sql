CREATE SCHEMA graphile_worker;
CREATE TABLE graphile_worker._private_tasks (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, identifier text NOT NULL UNIQUE);
CREATE TABLE graphile_worker._private_jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job_queue_id int, task_id int NOT NULL,
	payload json NOT NULL DEFAULT '{}', priority smallint NOT NULL DEFAULT 0, run_at timestamptz NOT NULL DEFAULT now(),
	attempts smallint NOT NULL DEFAULT 0, max_attempts smallint NOT NULL DEFAULT 25, last_error text, created_at timestamptz NOT NULL DEFAULT now(),
	updated_at timestamptz NOT NULL DEFAULT now(), key text UNIQUE, locked_at timestamptz, locked_by text, revision int NOT NULL DEFAULT 0, flags jsonb);
