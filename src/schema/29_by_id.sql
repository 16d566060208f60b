-- ---- jobs by their ids: for programs that keep no leases ----

CREATE FUNCTION pgq_finish(job_ids bigint[]) RETURNS SETOF bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_finish';
REVOKE ALL ON FUNCTION pgq_finish FROM PUBLIC;
COMMENT ON FUNCTION pgq_finish IS
'End jobs by their ids as if they were acknowledged, whether they wait or a worker has them (at most 10000). Returns the ids of the jobs that were ended, in ascending order; other ids, also those of dead letters, are left out. NULL, which array_agg returns for no rows, stands for no jobs. A job that was waiting counts as handed out and acknowledged. For a job that a worker has, and its lease, the call does what pgq_cancel does, and it waits for the same transactions. Errors: 22004 an element is NULL, 54000 too many elements, 53400 too many jobs are claimed at the same time.';

CREATE FUNCTION pgq_ext.lease_of(
    job bigint, OUT job_id bigint, OUT lease bigint, OUT queue_id integer, OUT state text, OUT attempt integer,
    OUT worker text, OUT pid integer, OUT claimed_at timestamptz, OUT lease_expires_at timestamptz,
    OUT in_transaction boolean, OUT session_bound boolean) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 COST 1 AS 'MODULE_PATHNAME', 'pgq_lease_of';
REVOKE ALL ON FUNCTION pgq_ext.lease_of FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.lease_of IS
'The lease of one job: one row, as the view pgq_ext.lease would show it, or no row. state: claimed (a worker has the job) or lost (the lease has ended without an answer, and its attempt is not counted in the row of the job yet). Takes the same time however many leases there are. lease is NULL for a caller that may not read the column in the view pgq_ext.lease. A caller that may not see the queue gets no row.';
