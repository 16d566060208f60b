/* Quiet points: all actors wait, and the rows in the tables are compared with the ledger. */
#pragma once

#include "actor.h"

namespace torture {

class Auditor
{
public:
	Auditor(World &world);

	/* Create the tables and queues that the test needs. */
	void prepare();
	/* Create what needs the SQL objects of the library's version. */
	void prepare_after_update();

	/*
	 * Run a quiet point. drain: first end all open transactions and work on all jobs; none may be
	 * left over.
	 */
	void quiet_point(bool drain);

private:
	World &world;
	Random random;
	Session session;

	template <typename Step> void insist(const char *what, Step step);
	void end_all_prepared();
	void hasten();
	void do_all_jobs();
	bool do_some(const std::vector<std::string> &queues, std::vector<Key> *done, int most);
	void check_order();
	void break_off_claims();
	void check_turns(const std::string &queue);
	/* Wait as long as the query returns a row. */
	void wait_while(const std::string &query);
	void compare();
	void check_engine();
	void forget();
};

} // namespace torture
