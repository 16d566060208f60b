/*
 * A scan node of the executor for pgq_claim, pgq_claim_any, pgq_ack_claim and pgq_ack_next in FROM.
 *
 * Without this node, the server calls a set-returning function in FROM by its node FunctionScan:
 * the function makes all columns of all rows and puts them into a tuplestore, from which
 * FunctionScan reads them again. These steps took a tenth of the instructions of a claim of one job
 * and its ack. The node of this file makes only the columns that the query uses, and keeps the rows
 * in memory up to work_mem.
 *
 * The planner's hook replaces a FunctionScan by this node in the usual cases only: one function in
 * FROM, not LATERAL, no WITH ORDINALITY, and no use of the whole row. In all other cases, and with
 * pgq_ext.claim_scan = off, FunctionScan runs as before. With both nodes a query returns the same
 * rows, checks the same rights, and claims all jobs before it returns the first row.
 */
#pragma once

namespace pgq {

void claim_scan_init();

} // namespace pgq
