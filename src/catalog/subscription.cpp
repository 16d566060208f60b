#include "catalog/subscription.h"

#include "catalog/tables.h"

namespace pgq {

/* ---- finding the subscription ---- */

/*
 * Return whether the owner of the subscription has the right to write the table. From PostgreSQL 16
 * on, a role without any right on a table can create a subscription to it.
 */
static bool
brings_rows(Oid subscription, Oid relid)
{
	HeapTuple tuple = SearchSysCache1(SUBSCRIPTIONOID, ObjectIdGetDatum(subscription));
	if (!HeapTupleIsValid(tuple))
		return false;
	Oid owner = reinterpret_cast<Form_pg_subscription>(GETSTRUCT(tuple))->subowner;
	ReleaseSysCache(tuple);
	return pg_class_aclcheck(relid, owner, ACL_INSERT) == ACLCHECK_OK ||
		   is_member_of_role(owner, owner_of(relid));
}

Oid
subscription_to(Oid relid)
{
	Oid subscription = InvalidOid;
	Relation rel = table_open(SubscriptionRelRelationId, AccessShareLock);
	ScanKeyData key;
	ScanKeyInit(&key, Anum_pg_subscription_rel_srrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	SysScanDesc scan =
		systable_beginscan(rel, SubscriptionRelSrrelidSrsubidIndexId, true, nullptr, 1, &key);
	for (HeapTuple tuple;
		 !OidIsValid(subscription) && HeapTupleIsValid(tuple = systable_getnext(scan));)
	{
		Oid found = reinterpret_cast<Form_pg_subscription_rel>(GETSTRUCT(tuple))->srsubid;
		if (brings_rows(found, relid))
			subscription = found;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return subscription;
}

/* Return whether the server has, or has had, a subscription. */
static bool
has_subscriptions()
{
	Relation rel = table_open(SubscriptionRelationId, AccessShareLock);
	bool has = RelationGetNumberOfBlocks(rel) > 0;
	table_close(rel, AccessShareLock);
	return has;
}

Oid
find_subscription(const Tables &t)
{
	Oid subscription = InvalidOid;
	if (!has_subscriptions())
		return InvalidOid;
	for (int i = 0; i < kRings && !OidIsValid(subscription); i++)
		subscription = subscription_to(t.ring[i]);
	for (const Segment &segment : t.all_segments())
		if (!OidIsValid(subscription))
			subscription = subscription_to(segment.heap);
	return subscription;
}

/* ---- errors ---- */

[[noreturn]] static void
complain_subscribed(Oid subscription, const char *what, const char *tables)
{
	const char *name = get_subscription_name(subscription, true);
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("the %s of this database belong to the publisher of subscription \"%s\"",
						   what, name ? name : "?"),
					errdetail("The subscription replicates rows of %s.", tables),
					errhint("Run the command on the publisher. Or drop the subscription, if this "
							"database is to take over from the publisher.")));
}

bool
is_subscribed()
{
	const Tables *t = tables_if_attached();
	return t != nullptr && OidIsValid(t->subscription);
}

void
refuse_if_subscribed()
{
	const Tables *t = tables_if_attached();
	if (t != nullptr && OidIsValid(t->subscription))
		complain_subscribed(t->subscription, "jobs", "pgq_ext.job or of its records");
}

void
refuse_if_queues_subscribed()
{
	Oid subscription = subscription_to(look_at_tables().queue);
	if (OidIsValid(subscription))
		complain_subscribed(subscription, "queues", "pgq_ext.queue");
}

} // namespace pgq
