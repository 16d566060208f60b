#include "catalog/subscription.h"

#include "catalog/tables.h"

namespace pgq {

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
