#include "handlers/check.h"

#include "catalog/own_object.h"
#include "catalog/rights.h"
#include "load/attach.h"

namespace pgq {

constinit bool superuser_handlers = false;

void
handlers_init()
{
	DefineCustomBoolVariable("pgq_ext.superuser_handlers",
							 "Whether handlers may run as a superuser.",
							 "A handler runs as a superuser only if a superuser has set it, too.",
							 &superuser_handlers, false, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
}

/* ---- faults ---- */

static Fault fault(int code, const char *hint, const char *format, ...) pg_attribute_printf(3, 4);

static Fault
fault(int code, const char *hint, const char *format, ...)
{
	Fault result{};
	result.code = code;
	if (hint != nullptr)
		strlcpy(result.hint, hint, sizeof(result.hint));
	va_list arguments;
	va_start(arguments, format);
	(void) vsnprintf(result.message, sizeof(result.message), format, arguments);
	va_end(arguments);
	return result;
}

static Fault with_hint(Fault fault, const char *format, ...) pg_attribute_printf(2, 3);

static Fault
with_hint(Fault fault, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	(void) vsnprintf(fault.hint, sizeof(fault.hint), format, arguments);
	va_end(arguments);
	return fault;
}

/* quoted: the function as in SQL */
static Fault
no_execute(const char *role, const char *function, const char *quoted)
{
	return with_hint(fault(ERRCODE_INSUFFICIENT_PRIVILEGE, nullptr,
						   "permission denied for function %s: role \"%s\"", function, role),
					 "Run GRANT EXECUTE ON FUNCTION %s TO %s.", quoted, quote_identifier(role));
}

void
raise_fault(const Fault &fault)
{
	ereport(ERROR, (errcode(fault.code), errmsg_internal("%s", fault.message),
					fault.hint[0] != '\0' ? errhint("%s", fault.hint) : 0));
}

/* ---- the function ---- */

static Form_pg_proc
form_of(HeapTuple tuple)
{
	return reinterpret_cast<Form_pg_proc>(GETSTRUCT(tuple));
}

/* Return the type pgq_ext.claimed_job, or its array type. */
static Oid
type_of_jobs(bool array)
{
	Oid type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, PointerGetDatum("claimed_job"),
							   ObjectIdGetDatum(get_namespace_oid("pgq_ext", true)));
	if (!is_member(TypeRelationId, type))
		return InvalidOid;
	return array ? get_array_type(type) : type;
}

/* Return what keeps the function from being a handler, by its kind, argument and result. */
static Fault
fault_of_shape(const FormData_pg_proc *form, bool *takes_array)
{
	static const char hint[] = "A handler is a function of one argument of type "
							   "pgq_ext.claimed_job that returns jsonb or void, or of type "
							   "pgq_ext.claimed_job[] that returns void.";
	if (form->prokind != PROKIND_FUNCTION || form->proretset)
		return fault(ERRCODE_INVALID_FUNCTION_DEFINITION, hint, "%s cannot be a handler",
					 form->prokind == PROKIND_PROCEDURE	  ? "a procedure"
					 : form->prokind == PROKIND_AGGREGATE ? "an aggregate"
					 : form->proretset					  ? "a function that returns a set"
														  : "a window function");
	Oid argument = form->pronargs == 1 ? form->proargtypes.values[0] : InvalidOid;
	*takes_array = OidIsValid(argument) && argument == type_of_jobs(true);
	bool takes_one = OidIsValid(argument) && argument == type_of_jobs(false);
	bool returns = form->prorettype == VOIDOID || (form->prorettype == JSONBOID && takes_one);
	if (form->pronargdefaults != 0 || OidIsValid(form->provariadic) ||
		!(takes_one || *takes_array) || !returns)
		return fault(ERRCODE_INVALID_FUNCTION_DEFINITION, hint, "function %s cannot be a handler",
					 NameStr(form->proname));
	return {};
}

Fault
describe_function(HandlerRow *row)
{
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(row->function));
	if (!HeapTupleIsValid(tuple))
		return fault(ERRCODE_UNDEFINED_FUNCTION, nullptr, "function with OID %u does not exist",
					 row->function);
	const FormData_pg_proc *form = form_of(tuple);
	Fault found = fault_of_shape(form, &row->takes_array);
	namestrcpy(&row->function_name, NameStr(form->proname));
	const char *schema = get_namespace_name(form->pronamespace);
	namestrcpy(&row->schema_name, schema != nullptr ? schema : "");
	row->function_owner = form->proowner;
	ReleaseSysCache(tuple);
	return found;
}

/*
 * Return the function that has the names and the argument of the row, and, with same_owner, its
 * owner; else InvalidOid.
 */
static Oid
function_by_name(const HandlerRow &row, bool same_owner)
{
	const Oid type = type_of_jobs(row.takes_array);
	oidvector *types = buildoidvector(&type, 1);
	HeapTuple tuple = SearchSysCache3(
		PROCNAMEARGSNSP, PointerGetDatum(NameStr(row.function_name)), PointerGetDatum(types),
		ObjectIdGetDatum(get_namespace_oid(NameStr(row.schema_name), true)));
	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	bool fits = !same_owner || form_of(tuple)->proowner == row.function_owner;
	Oid function = fits ? form_of(tuple)->oid : InvalidOid;
	ReleaseSysCache(tuple);
	return function;
}

Oid
function_of_row(const HandlerRow &row)
{
	HandlerRow now = row;
	bool same = !describe_function(&now).any() &&
				strcmp(NameStr(now.schema_name), NameStr(row.schema_name)) == 0 &&
				strcmp(NameStr(now.function_name), NameStr(row.function_name)) == 0;
	return same ? row.function : function_by_name(row, false);
}

/*
 * Return whether the function is the one of the row: OID, names, owner and argument agree. By the
 * name alone, any role that may create functions in the schema could put its code in the place of a
 * function that was dropped.
 */
static Fault
fault_of_identity(const HandlerRow &row)
{
	static const char hint[] = "Check the function, then call pgq_resume_handler or "
							   "pgq_set_handler.";
	HandlerRow now = row;
	Fault found = describe_function(&now);
	if (found.code == ERRCODE_UNDEFINED_FUNCTION)
		return fault(ERRCODE_UNDEFINED_FUNCTION, hint, "function %s.%s was dropped",
					 NameStr(row.schema_name), NameStr(row.function_name));
	if (found.any())
		return found;
	if (now.function_owner != row.function_owner)
		return fault(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, hint,
					 "function %s.%s has another owner", NameStr(row.schema_name),
					 NameStr(row.function_name));
	if (strcmp(NameStr(now.schema_name), NameStr(row.schema_name)) != 0 ||
		strcmp(NameStr(now.function_name), NameStr(row.function_name)) != 0 ||
		now.takes_array != row.takes_array)
		return fault(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, hint,
					 "function %s.%s has another name, schema or argument",
					 NameStr(row.schema_name), NameStr(row.function_name));
	return {};
}

/* ---- the role ---- */

/* Return why no worker could log in as the role. */
static Fault
fault_of_role(const HandlerRow &row)
{
	HeapTuple tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(row.run_as));
	if (!HeapTupleIsValid(tuple))
		return fault(ERRCODE_UNDEFINED_OBJECT, nullptr, "role \"%s\" does not exist",
					 NameStr(row.run_as_name));
	bool can_login = reinterpret_cast<Form_pg_authid>(GETSTRUCT(tuple))->rolcanlogin;
	ReleaseSysCache(tuple);
	const char *role = GetUserNameFromId(row.run_as, true);
	if (!can_login)
		return with_hint(fault(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, nullptr,
							   "role \"%s\" may not log in", role),
						 "Workers log in as this role. Run ALTER ROLE %s LOGIN.",
						 quote_identifier(role));
	if (!has_connect(row.run_as))
		return with_hint(fault(ERRCODE_INSUFFICIENT_PRIVILEGE, nullptr,
							   "role \"%s\" may not connect to this database", role),
						 "Run GRANT CONNECT ON DATABASE %s TO %s.",
						 quote_identifier(get_database_name(MyDatabaseId)), quote_identifier(role));
	if (superuser_arg(row.run_as) && !(superuser_handlers && row.superuser))
		return fault(ERRCODE_INSUFFICIENT_PRIVILEGE,
					 "Use a role that is not a superuser. Otherwise set "
					 "pgq_ext.superuser_handlers, and let a superuser call pgq_set_handler.",
					 "handlers must not run as superuser \"%s\"", role);
	/*
	 * The owner of the table could write any row, and must not get the rights of other roles in
	 * that way.
	 */
	if (!may_set_role(look_at_tables().owner, row.run_as))
		return fault(ERRCODE_INSUFFICIENT_PRIVILEGE,
					 "Grant it that role, or make a superuser the owner.",
					 "the owner of pgq_ext could not SET ROLE to \"%s\"", role);
	return {};
}

/* ---- rights ---- */

/* Return the function of the extension with that name. The schema does not matter. */
static Oid
function_of_extension(const char *name)
{
	Oid found = InvalidOid;
	CatCList *list = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(name));
	for (int i = 0; i < list->n_members && !OidIsValid(found); i++)
		if (Oid oid = form_of(&list->members[i]->tuple)->oid; is_member(ProcedureRelationId, oid))
			found = oid;
	ReleaseSysCacheList(list);
	return found;
}

/* Return which right the role lacks to claim from the queue, to ack, and to call the function. */
static Fault
fault_of_rights(const HandlerRow &row, Oid role, const char *queue)
{
	const char *name = GetUserNameFromId(role, true);
	for (const char *function : {"pgq_claim", "pgq_ack"})
		if (!has_execute(function_of_extension(function), role))
			return no_execute(name, function, function);
	if (!may_of(role, Permission::kClaim, row.queue_id))
		return fault(ERRCODE_INSUFFICIENT_PRIVILEGE,
					 "A role with the right \"admin\" on the queue can grant the right \"claim\" "
					 "with pgq_grant.",
					 "permission denied for queue \"%s\": role \"%s\"", queue, name);
	if (!has_execute(row.function, role))
		return no_execute(
			name, NameStr(row.function_name),
			quote_qualified_identifier(NameStr(row.schema_name), NameStr(row.function_name)));
	return {};
}

/* ---- all of it ---- */

Fault
fault_of(HandlerRow *row, const char *queue, int64 here, bool *row_changed)
{
	*row_changed = false;
	if (row->stamp != here)
		return fault(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
					 "Call pgq_resume_handler when the database may do its work.",
					 "the handler came from a dump or a copy of another database");
	Fault found = fault_of_role(*row);
	if (found.any())
		return found;
	found = fault_of_identity(*row);
	if (found.any() && row->server != kServerVersion)
		if (Oid function = function_by_name(*row, true); OidIsValid(function))
		{
			row->function = function;
			row->server = kServerVersion;
			*row_changed = true;
			found = fault_of_identity(*row);
		}
	return found.any() ? found : fault_of_rights(*row, row->run_as, queue);
}

Fault
fault_of_setter(const HandlerRow &row, const char *queue)
{
	if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(row.run_as)))
		return fault(ERRCODE_UNDEFINED_OBJECT, nullptr, "role with OID %u does not exist",
					 row.run_as);
	if (!may_set_role(GetUserId(), row.run_as))
		return fault(ERRCODE_INSUFFICIENT_PRIVILEGE, "Use a role to which you can SET ROLE.",
					 "permission denied to run a handler as role \"%s\"",
					 GetUserNameFromId(row.run_as, true));
	return fault_of_rights(row, GetUserId(), queue);
}

/* ---- changes of catalogs ---- */

static constinit bool differ = true;

static void
note_change(Datum, CacheId, uint32)
{
	differ = true;
}

bool
faults_may_differ()
{
	static constinit bool registered = false;
	if (!registered)
	{
		for (auto cache : {PROCOID, AUTHOID, AUTHMEMROLEMEM, DATABASEOID, NAMESPACEOID})
			CacheRegisterSyscacheCallback(cache, note_change, 0);
		registered = true;
	}
	return differ;
}

void
note_check_of_all()
{
	differ = false;
}

} // namespace pgq
