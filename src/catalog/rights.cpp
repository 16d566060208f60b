#include "catalog/rights.h"

#include "catalog/owner_sql.h"

namespace pgq {

/* ---- cache ---- */

/*
 * The bit of Known::rights that says that the views show the queue's jobs to the role. The lower
 * bits stand for the rights, in the order of right_specs.
 */
static constexpr uint8 kSees = 1 << lengthof(right_specs);
static constexpr uint8 kAll = (kSees << 1) - 1;

static constexpr uint8
bit_of(Right right)
{
	return static_cast<uint8>(1 << static_cast<int>(right));
}

namespace {
/*
 * Cached rights of one role on one queue. Several pairs of role and queue share one entry, which
 * has the rights of the pair that was looked up last.
 */
struct Known
{
	bool valid;
	Openness openness;
	uint8 rights;
	int32 queue_id;
	Oid role;
	uint32 hash; /* hash of the view's name in the server's relation cache */
};

} // namespace

static constinit Known known_rights[64] = {};
static constinit uint32 hash_of_queue_table = 0;
static constinit uint32 changes = 0;
static constinit bool notices_changes = false;
/* The schema pgq_ext was there, and no schema has changed since. */
static constinit bool schema_seen = false;

static void
forget_all()
{
	changes++;
	schema_seen = false;
	for (Known &entry : known_rights)
		entry.valid = false;
}

/*
 * Invalidate cached rights after a change of the relation with that hash; 0: any relation may have
 * changed. A look-up that is in progress notices the change by the counter `changes`.
 */
static void
at_relation_change(Datum, CacheId, uint32 hash)
{
	if (hash == 0 || hash == hash_of_queue_table)
		forget_all();
	for (Known &entry : known_rights)
		if (entry.hash == hash)
		{
			changes++;
			entry.valid = false;
		}
}

static void
at_role_change(Datum, CacheId, uint32)
{
	forget_all();
}

static void
notice_changes()
{
	if (notices_changes)
		return;
	CacheRegisterSyscacheCallback(RELNAMENSP, at_relation_change, 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, at_role_change, 0);
	CacheRegisterSyscacheCallback(AUTHOID, at_role_change, 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, at_role_change, 0);
	/*
	 * A change of pg_database may change the owner of the database, who is a member of
	 * pg_database_owner.
	 */
	CacheRegisterSyscacheCallback(DATABASEOID, at_role_change, 0);
	notices_changes = true;
}

/* ---- lookup ---- */

void
name_of_rights(int32 queue_id, char *name)
{
	snprintf(name, NAMEDATALEN, "rights_%d", queue_id);
}

static bool
owns_tables(Oid role)
{
	Oid owner = owner_of_tables();
	return superuser_arg(role) || (OidIsValid(owner) && has_privs_of_role(role, owner));
}

/*
 * Return whether the view belongs to the owner of the tables. Two superusers count as the same
 * owner: after a restore, the superuser who ran the restore owns the view.
 */
static bool
is_owners(Form_pg_class view)
{
	Oid owner = owner_of_tables();
	return view->relkind == RELKIND_VIEW &&
		   (view->relowner == owner || (superuser_arg(view->relowner) && superuser_arg(owner)));
}

static uint8
rights_by_privileges(HeapTuple tuple, Oid owner, Oid role)
{
	bool is_null;
	Datum value = SysCacheGetAttr(RELNAMENSP, tuple, Anum_pg_class_relacl, &is_null);
	const Acl *acl = is_null ? acldefault(OBJECT_TABLE, owner) : DatumGetAclP(value);
	uint8 rights = 0;
	for (int i = 0; i < static_cast<int>(lengthof(right_specs)); i++)
		if (aclmask(acl, role, owner, right_specs[i].privilege, ACLMASK_ALL) != 0)
			rights |= 1 << i;
	if (rights & bit_of(Right::kAdmin))
		rights |= bit_of(Right::kInspect);
	return rights;
}

Openness
openness_by_view(const char *name)
{
	Oid schema = get_namespace_oid("pgq_ext", true);
	HeapTuple tuple = SearchSysCache2(RELNAMENSP, CStringGetDatum(name), ObjectIdGetDatum(schema));
	if (!HeapTupleIsValid(tuple))
		return Openness::kOpen;
	bool ours = is_owners(reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple)));
	ReleaseSysCache(tuple);
	return ours ? Openness::kClosed : Openness::kForeign;
}

bool
has_privilege_on_view(const char *name, AclMode privilege)
{
	Oid schema = get_namespace_oid("pgq_ext", true);
	HeapTuple tuple = SearchSysCache2(RELNAMENSP, CStringGetDatum(name), ObjectIdGetDatum(schema));
	if (!HeapTupleIsValid(tuple))
		return false;
	auto *view = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
	bool has = false;
	if (is_owners(view))
	{
		bool is_null;
		Datum value = SysCacheGetAttr(RELNAMENSP, tuple, Anum_pg_class_relacl, &is_null);
		const Acl *acl = is_null ? acldefault(OBJECT_TABLE, view->relowner) : DatumGetAclP(value);
		has = aclmask(acl, GetUserId(), view->relowner, privilege, ACLMASK_ANY) != 0;
	}
	ReleaseSysCache(tuple);
	return has;
}

static void
look(Known *entry, const char *name, Oid schema)
{
	HeapTuple tuple = SearchSysCache2(RELNAMENSP, CStringGetDatum(name), ObjectIdGetDatum(schema));
	entry->openness = Openness::kOpen;
	entry->rights = kAll;
	if (!HeapTupleIsValid(tuple))
		return;
	auto *view = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
	bool counts = is_owners(view);
	entry->openness = counts ? Openness::kClosed : Openness::kForeign;
	if (!owns_tables(entry->role))
	{
		entry->rights = counts ? rights_by_privileges(tuple, view->relowner, entry->role) : 0;
		if ((entry->rights & bit_of(Right::kInspect)) ||
			has_privs_of_role(entry->role, ROLE_PG_MONITOR))
			entry->rights |= kSees;
	}
	ReleaseSysCache(tuple);
}

/*
 * Look up the rights. If an invalidation arrives during the look-up, return the answer but do not
 * cache it.
 */
static const Known &
look_up(Known *entry, int32 queue_id, Oid role)
{
	char name[NAMEDATALEN];
	notice_changes();
	name_of_rights(queue_id, name);
	/* If the schema is missing, no role has rights, and the caller reports the missing schema. */
	Oid schema = get_namespace_oid("pgq_ext", true);
	hash_of_queue_table =
		GetSysCacheHashValue2(RELNAMENSP, CStringGetDatum("queue"), ObjectIdGetDatum(schema));
	*entry = {
		.queue_id = queue_id,
		.role = role,
		.hash = GetSysCacheHashValue2(RELNAMENSP, CStringGetDatum(name), ObjectIdGetDatum(schema))};
	uint32 before = changes;
	look(entry, name, schema);
	entry->valid = changes == before;
	return *entry;
}

/*
 * Return the latest committed rights of the role on the queue. Process invalidations first: a
 * transaction that is open for long would otherwise not notice that rights have changed.
 */
static const Known &
rights_on(int32 queue_id, Oid role)
{
	AcceptInvalidationMessages();
	Known *entry = &known_rights[static_cast<uint32>(queue_id) % lengthof(known_rights)];
	bool hit = entry->valid && entry->queue_id == queue_id &&
			   (entry->openness == Openness::kOpen || entry->role == role);
	return hit ? *entry : look_up(entry, queue_id, role);
}

/* ---- checks ---- */

bool
may(Permission permission, int32 queue_id)
{
	return (rights_on(queue_id, GetUserId()).rights & bit_of(right_for(permission))) != 0;
}

bool
may_see(int32 queue_id)
{
	return (rights_on(queue_id, GetUserId()).rights & kSees) != 0;
}

bool
may_know(int32 queue_id)
{
	return rights_on(queue_id, GetUserId()).rights != 0;
}

bool
has_schema()
{
	notice_changes();
	if (schema_seen)
		return true;
	uint32 before = changes;
	bool seen = OidIsValid(get_namespace_oid("pgq_ext", true));
	schema_seen = seen && changes == before;
	return seen;
}

bool
is_owner()
{
	return owns_tables(GetUserId());
}

Openness
openness_of(int32 queue_id)
{
	return rights_on(queue_id, GetUserId()).openness;
}

[[noreturn]] static void
complain_denied(const char *role, Right right, const Known &known, const char *queue)
{
	const char *name = right_specs[static_cast<int>(right)].name;
	bool foreign = known.openness == Openness::kForeign;
	ereport(
		ERROR,
		(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
		 errmsg("permission denied for queue \"%s\"", queue),
		 foreign
			 ? errdetail("Relation \"pgq_ext.rights_%d\" should hold the rights on the queue, but "
						 "is not a view or does not belong to the owner of the tables of pgq_ext.",
						 known.queue_id)
			 : errdetail("Role \"%s\" does not have the right \"%s\" on the queue.", role, name),
		 foreign
			 ? errhint(
				   "Ask the owner of the tables of pgq_ext to drop relation \"pgq_ext.rights_%d\" "
				   "and to grant the rights on the queue again with pgq_grant.",
				   known.queue_id)
			 : errhint("A role with the right \"admin\" on the queue can grant it: SELECT "
					   "pgq_grant(%s, %s, "
					   "'{%s}').",
					   quote_literal_cstr(queue), quote_literal_cstr(role), name)));
}

bool
may_of(Oid role, Permission permission, int32 queue_id)
{
	return (rights_on(queue_id, role).rights & bit_of(right_for(permission))) != 0;
}

void
require_right_of(Oid role, const char *role_name, Permission permission, int32 queue_id,
				 const char *queue)
{
	if (!may_of(role, permission, queue_id))
		complain_denied(role_name, right_for(permission), rights_on(queue_id, role), queue);
}

void
require_right(Permission permission, int32 queue_id, const char *queue)
{
	if (!may(permission, queue_id))
		require_right_of(GetUserId(), GetUserNameFromId(GetUserId(), false), permission, queue_id,
						 queue);
}

} // namespace pgq
