/* Graphs: what the actors and the auditor share. */
#pragma once

#include "actor.h"

namespace torture {

/*
 * Create the queues and the table of effects. Does nothing if the SQL objects are of a version without
 * dependencies, or if all that exists.
 */
void prepare_graphs(Session &session);

/* Return, for each of n jobs of a random graph, the jobs before it that are its parents. */
std::vector<std::vector<int>> some_shape(Random &random, int n);

/* A job that was claimed. */
struct GraphWork
{
	Key key;
	int64_t job_id;
	int64_t lease;
};

/* Claim jobs of the queue, and tell the ledger. */
std::vector<GraphWork> claim_graph_jobs(Session &session, Transaction &tx, const std::string &queue,
										int most, Time lease_time, Time wait = 0);
/* Ask for the parents of a job that has some, and tell the ledger. */
void ask_for_parents(Session &session, Transaction &tx, const GraphWork &work);
/* Acknowledge the job, perhaps with a result. */
void ack_graph_job(Session &session, Transaction &tx, const GraphWork &work, bool with_result);
/* Do the jobs of some callbacks: write their effects, and acknowledge them. Returns their number. */
int do_graph_callbacks(Session &session, Transaction &tx, int most, Time wait = 0);

/*
 * At a quiet point without open transactions: wait until no job is blocked without need, end all jobs, do
 * all callbacks, and now and then wait until dependencies and outcomes are deleted.
 */
void drain_graphs(Session &session, Random &random);
/* Check all jobs of graphs. drained: drain_graphs() was called. Forgets jobs that have ended. */
void audit_graphs(Session &session, bool drained);

} // namespace torture
