/*
 * Differences between the versions of the server, hidden behind functions that are the same for all
 * versions. No other file asks for the version. Included by pg/pg.h.
 */
#pragma once

extern "C" {
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#if PG_VERSION_NUM >= 190000
#include "commands/sequence_xlog.h"
#include "nodes/miscnodes.h"
#endif
}

namespace pgq {

/* The major version of the server. */
inline constexpr int kServerVersion = PG_VERSION_NUM / 10000;

/* ---- signals ---- */

/* The arguments of a SIGNAL_ARGS handler, to be passed on to a handler of the server. */
#if PG_VERSION_NUM >= 190000
#define PGQ_SIGNAL postgres_signal_arg, pg_siginfo
#else
#define PGQ_SIGNAL postgres_signal_arg
#endif

/* Do what the handler of SIGHUP does: the process reads its configuration files again soon. */
inline void
ask_for_reload()
{
#if PG_VERSION_NUM >= 190000
	pg_signal_info nobody{};
	SignalHandlerForConfigReload(SIGHUP, &nobody);
#else
	SignalHandlerForConfigReload(SIGHUP);
#endif
}

/* ---- expressions ---- */

/* Call walker(node, context) for the nodes below that node: expression_tree_walker(). */
inline bool
walk_below(Node *node, bool (*walker)(Node *, void *), void *context)
{
#if PG_VERSION_NUM >= 160000
	return expression_tree_walker(node, walker, context);
#else
	return expression_tree_walker(
		node, reinterpret_cast<bool (*)()>(reinterpret_cast<void (*)()>(walker)), context);
#endif
}

/* ---- rights ---- */

/* Raise an error if the current user may not execute the function. */
inline void
check_execute(Oid function)
{
#if PG_VERSION_NUM >= 160000
	AclResult allowed = object_aclcheck(ProcedureRelationId, function, GetUserId(), ACL_EXECUTE);
#else
	AclResult allowed = pg_proc_aclcheck(function, GetUserId(), ACL_EXECUTE);
#endif
	if (allowed != ACLCHECK_OK)
		aclcheck_error(allowed, OBJECT_FUNCTION, get_func_name(function));
	InvokeFunctionExecuteHook(function);
}

/* Return whether the role may execute the function. */
inline bool
has_execute(Oid function, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(ProcedureRelationId, function, role, ACL_EXECUTE) == ACLCHECK_OK;
#else
	return pg_proc_aclcheck(function, role, ACL_EXECUTE) == ACLCHECK_OK;
#endif
}

/* Return whether the role may connect to this database. */
inline bool
has_connect(Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(DatabaseRelationId, MyDatabaseId, role, ACL_CONNECT) == ACLCHECK_OK;
#else
	return pg_database_aclcheck(MyDatabaseId, role, ACL_CONNECT) == ACLCHECK_OK;
#endif
}

/* Return whether the role `member` could SET ROLE to `role`. */
inline bool
may_set_role(Oid member, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return member_can_set_role(member, role);
#else
	return is_member_of_role(member, role);
#endif
}

/* Return whether the role owns the relation, or is a member of its owner. */
inline bool
owns_relation(Oid relation, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(RelationRelationId, relation, role);
#else
	return pg_class_ownercheck(relation, role);
#endif
}

/* ---- columns ---- */

/* Return whether the column is generated and not stored. */
inline bool
is_virtual_column([[maybe_unused]] const FormData_pg_attribute *attribute)
{
#if PG_VERSION_NUM >= 180000
	return attribute->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL;
#else
	return false;
#endif
}

/* ---- workers ---- */

/*
 * With this flag, CREATE, ALTER and DROP DATABASE end a worker by SIGTERM; without it, they wait
 * for the worker.
 */
#if PG_VERSION_NUM >= 190000
inline constexpr int kEndsForDatabase = BGWORKER_INTERRUPTIBLE;
#else
inline constexpr int kEndsForDatabase = 0;
#endif

/* ---- processes ---- */

/* Return the number of this process: 0 <= number < process_count() (engine/shared.h). */
inline int
my_procno()
{
#if PG_VERSION_NUM >= 170000
	return MyProcNumber;
#else
	return MyProc->pgprocno;
#endif
}

/*
 * Return the process whose virtual transaction ids contain that number; nullptr if there is none.
 * Before PostgreSQL 17 this number is not my_procno(). A process that exits gives up its number
 * after it has aborted its transaction.
 */
inline PGPROC *
process_by_id(int id)
{
#if PG_VERSION_NUM >= 170000
	return ProcNumberGetProc(id);
#else
	return BackendIdGetProc(id);
#endif
}

/* The numbers for process_by_id() are in [kFirstProcessId, kFirstProcessId + MaxBackends). */
#if PG_VERSION_NUM >= 170000
inline constexpr int kFirstProcessId = 0;
#else
inline constexpr int kFirstProcessId = 1;
#endif

/* Return the local id of the transaction that the process is in, 0 if it is in none. */
inline LocalTransactionId
local_xid_of(const PGPROC *process)
{
#if PG_VERSION_NUM >= 170000
	return process->vxid.lxid;
#else
	return process->lxid;
#endif
}

/* ---- heavyweight locks ---- */

/* Return whether this process holds the lock in that mode. */
inline bool
has_lock(const LOCKTAG &tag, LOCKMODE mode)
{
#if PG_VERSION_NUM >= 170000
	return LockHeldByMe(&tag, mode, false);
#else
	return LockHeldByMe(&tag, mode);
#endif
}

/* ---- virtual transaction ids ---- */

/* Return the virtual id of this transaction. */
inline VirtualTransactionId
my_virtual_xid()
{
#if PG_VERSION_NUM >= 170000
	return {MyProcNumber, MyProc->vxid.lxid};
#else
	return {MyBackendId, MyProc->lxid};
#endif
}

#if PG_VERSION_NUM >= 170000
inline constexpr VirtualTransactionId kNoVirtualXid = {INVALID_PROC_NUMBER,
													   InvalidLocalTransactionId};
#else
inline constexpr VirtualTransactionId kNoVirtualXid = {InvalidBackendId, InvalidLocalTransactionId};
#endif

/* Return the virtual id that the lock manager gives a prepared transaction after a restart. */
inline VirtualTransactionId
virtual_xid_of_prepared(TransactionId xid)
{
	VirtualTransactionId id = kNoVirtualXid;
	id.localTransactionId = xid;
	return id;
}

/* Return whether the id belongs to a process, not to a prepared transaction. */
inline bool
is_of_process(const VirtualTransactionId &id)
{
#if PG_VERSION_NUM >= 170000
	return id.procNumber != kNoVirtualXid.procNumber;
#else
	return id.backendId != kNoVirtualXid.backendId;
#endif
}

/* Return the oldest xid whose outcome the server still knows. Caller holds XactTruncationLock. */
inline TransactionId
oldest_known_xid()
{
#if PG_VERSION_NUM >= 170000
	return TransamVariables->oldestClogXid;
#else
	return ShmemVariableCache->oldestClogXid;
#endif
}

/* ---- locks ---- */

/* Return whether the transaction has ended, without waiting. */
inline bool
has_ended(TransactionId xid)
{
#if PG_VERSION_NUM >= 180000
	return ConditionalXactLockTableWait(xid, false);
#else
	return ConditionalXactLockTableWait(xid);
#endif
}

/* ---- activity ---- */

/* Return the nth of the sessions that pg_stat_activity shows, counted from 1. */
inline const LocalPgBackendStatus *
nth_session(int n)
{
#if PG_VERSION_NUM >= 160000
	return pgstat_get_local_beentry_by_index(n);
#else
	return pgstat_fetch_stat_local_beentry(n);
#endif
}

/* Return the number of dead rows that pg_stat_all_tables shows of the table. */
inline int64
told_dead_rows(Oid relid)
{
	const PgStat_StatTabEntry *told = pgstat_fetch_stat_tabentry(relid);
#if PG_VERSION_NUM >= 160000
	return told != nullptr ? told->dead_tuples : 0;
#else
	return told != nullptr ? told->n_dead_tuples : 0;
#endif
}

/* ---- caches ---- */

/* Type in which an invalidation callback gets the number of a system cache. */
#if PG_VERSION_NUM >= 190000
using CacheId = SysCacheIdentifier;
#else
using CacheId = int;
#endif

/* ---- waiting ---- */

inline uint32
new_wait_event([[maybe_unused]] const char *name)
{
#if PG_VERSION_NUM >= 170000
	return WaitEventExtensionNew(name);
#else
	return PG_WAIT_EXTENSION;
#endif
}

/* ---- time ---- */

/* Timeouts that can end a statement of a client. */
#if PG_VERSION_NUM >= 170000
inline constexpr TimeoutId kTimeLimits[] = {STATEMENT_TIMEOUT, TRANSACTION_TIMEOUT};
#else
inline constexpr TimeoutId kTimeLimits[] = {STATEMENT_TIMEOUT};
#endif

/* ---- shared memory ---- */

/* Create a hash table in shared memory with a fixed number of entries. */
inline HTAB *
new_shared_hash(const char *name, int64 entries, HASHCTL *info, int flags)
{
#if PG_VERSION_NUM >= 190000
	return ShmemInitHash(name, entries, info, flags);
#else
	return ShmemInitHash(name, entries, entries, info, flags);
#endif
}

/* ---- values ---- */

/* Convert to int4 with rounding. Return false if the value is out of range. */
inline bool
numeric_to_int4(Numeric value, int32 *number)
{
#if PG_VERSION_NUM >= 190000
	ErrorSaveContext caught{};
	caught.type = T_ErrorSaveContext;
	*number = numeric_int4_safe(value, reinterpret_cast<Node *>(&caught));
	return !caught.error_occurred;
#else
	bool failed = false;
	*number = numeric_int4_opt_error(value, &failed);
	return !failed;
#endif
}

/* ---- JSON ---- */

/* Return a JSON object with one key. */
inline Jsonb *
object_of_one(JsonbValue *key, JsonbValue *value)
{
#if PG_VERSION_NUM >= 190000
	JsonbInState state{};
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, nullptr);
	pushJsonbValue(&state, WJB_KEY, key);
	pushJsonbValue(&state, WJB_VALUE, value);
	pushJsonbValue(&state, WJB_END_OBJECT, nullptr);
	return JsonbValueToJsonb(state.result);
#else
	JsonbParseState *state = nullptr;
	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, nullptr);
	(void) pushJsonbValue(&state, WJB_KEY, key);
	(void) pushJsonbValue(&state, WJB_VALUE, value);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, nullptr));
#endif
}

/* ---- settings ---- */

/*
 * Return an array of all settings. In some versions of the server, the caller gets a new array each
 * time.
 */
inline config_generic **
all_settings(int *n)
{
#if PG_VERSION_NUM >= 160000
	return get_guc_variables(n);
#else
	*n = GetNumConfigOptions();
	return get_guc_variables();
#endif
}

} // namespace pgq

#include "pg/version_storage.h"
