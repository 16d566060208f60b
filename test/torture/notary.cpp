#include "actor.h"

namespace torture {

namespace {

/*
 * An actor that ends prepared transactions, at once or some seconds later. Its session did not
 * prepare them.
 */
class Notary : public Actor
{
public:
	using Actor::Actor;

private:
	void turn() override;
};

} // namespace

void
Notary::turn()
{
	TxRef tx;
	nap(random.between(1, 400) * kMillisecond);
	if (random.chance(30))
		nap(random.between(1, 2000) * kMillisecond);
	if (world.prepared.take(&tx))
		end_prepared(session, tx, random.chance(70));
}

static bool
still_there(Session &session, const TxRef &tx)
{
	return session.connection.run("SELECT 1 FROM pg_prepared_xacts WHERE gid = $1", {gid(tx)})
			   .size() > 0;
}

/*
 * End a prepared transaction. Repeat until it is gone: an answer may be lost, or the standby may
 * not have confirmed. In that case the table of transactions shows the outcome.
 */
void
end_prepared(Session &session, const TxRef &tx, bool commit)
{
	session.world.ledger.ending(tx);
	bool sure = true;
	for (Time end = now() + kPatience; now() < end;)
		try
		{
			session.connect_if_broken();
			if (!sure && !still_there(session, tx))
			{
				session.resolve(tx);
				return;
			}
			(void) session.connection.take_doubt();
			(void) session.connection.run(std::string(commit ? "COMMIT" : "ROLLBACK") +
										  " PREPARED '" + gid(tx) + "'");
			if (session.connection.take_doubt())
				sure = false;
			else if (commit)
				session.world.ledger.committed(tx);
			else
				session.world.ledger.aborted(tx);
			if (sure)
				return;
		}
		catch (const Broken &)
		{
			session.world.counters.broken++;
			sure = false;
		}
		catch (const SqlError &error)
		{
			session.world.counters.error(error.state);
			/*
			 * The statement was cancelled, or another session is still ending the transaction, or
			 * has just ended it.
			 */
			bool again = error.state == "57014" || error.state == "55000" ||
						 (error.state == "42704" && !sure);
			if (!again)
				throw;
			sure = false;
			nap(20 * kMillisecond);
		}
	throw Hung{"COMMIT PREPARED"};
}

std::unique_ptr<Actor>
make_notary(World &world)
{
	return std::make_unique<Notary>(world, "notary");
}

} // namespace torture
