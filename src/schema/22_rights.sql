-- ---- rights: see src/catalog/rights.h ----

CREATE FUNCTION pgq_grant(queue text, role text, rights text[]) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_grant';
REVOKE ALL ON FUNCTION pgq_grant FROM PUBLIC;
COMMENT ON FUNCTION pgq_grant IS
'Give a role (or ''public'': all roles) rights on a queue: enqueue, claim, inspect, admin (with which comes inspect). The first grant, which is a superuser''s or the owner''s, closes the queue: from there on EXECUTE on the functions is not enough, and admin on the queue is what it takes to grant. Rights are privileges of the view pgq_ext.rights_<queue_id>, which is dropped with the queue. Errors: 42704 no such queue or role, 42501 the caller may not, 22023 no such right.';

CREATE FUNCTION pgq_revoke(queue text, role text, rights text[]) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_revoke';
REVOKE ALL ON FUNCTION pgq_revoke FROM PUBLIC;
COMMENT ON FUNCTION pgq_revoke IS
'Take rights on a queue away from a role, or from ''public''; what it has as a member of another role stays. The queue stays closed. It counts from the commit on, for claims that wait, too. Errors: as pgq_grant; 55000 the queue has no rights, 0LP01 they were granted by another role.';

CREATE FUNCTION pgq_ext.may_see(queue_id integer) RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgq_may_see';
COMMENT ON FUNCTION pgq_ext.may_see IS
'Internal: may the caller see the queue and its jobs in the views? Only not if it is closed, and he has not the right inspect, nor pg_monitor.';

CREATE FUNCTION pgq_ext.may_read(view text, "column" text) RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgq_may_read';
COMMENT ON FUNCTION pgq_ext.may_read IS
'Internal: true if the caller may read that column of a view of pgq_ext by another grant than that to pg_monitor. For other readers columns with tokens and payloads are NULL.';
