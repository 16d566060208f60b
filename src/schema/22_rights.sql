-- ---- rights: see src/catalog/rights.h ----

CREATE FUNCTION pgq_grant(queue text, role text, rights text[]) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_grant';
REVOKE ALL ON FUNCTION pgq_grant FROM PUBLIC;
COMMENT ON FUNCTION pgq_grant IS
'Give a role (or ''public'': all roles) rights on a queue: enqueue, claim, inspect, admin (which includes inspect). Only a superuser or the owner can make the first grant, which closes the queue: from then on, EXECUTE on the functions is not enough to use the queue, and admin on the queue is the right to grant. Rights are privileges of the view pgq_ext.rights_<queue_id>, which is dropped with the queue. Errors: 42704 no such queue or role, 42501 the caller may not grant, 22023 no such right.';

CREATE FUNCTION pgq_revoke(queue text, role text, rights text[]) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_revoke';
REVOKE ALL ON FUNCTION pgq_revoke FROM PUBLIC;
COMMENT ON FUNCTION pgq_revoke IS
'Take rights on a queue away from a role, or from ''public''. Rights that the role has as a member of another role stay, and the queue stays closed. The change takes effect at the commit, also for claims that wait. Errors: as pgq_grant; 55000 the queue has no rights, 0LP01 another role has granted the rights.';

CREATE FUNCTION pgq_ext.may_see(queue_id integer) RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgq_may_see';
COMMENT ON FUNCTION pgq_ext.may_see IS
'Internal: true if the views show the queue and its jobs to the caller: the queue is open, or the caller has the right inspect or is a member of pg_monitor.';

CREATE FUNCTION pgq_ext.may_read(view text, "column" text) RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgq_may_read';
COMMENT ON FUNCTION pgq_ext.may_read IS
'Internal: true if the caller may read that column of a view of pgq_ext by a grant other than the grant to pg_monitor. For other readers, columns with tokens and payloads are NULL.';
