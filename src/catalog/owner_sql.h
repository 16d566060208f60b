/*
 * SQL statements for rare operations. The statements run with the rights of the owner of the
 * extension's tables, in a security-restricted operation, with a fixed search path
 * (protocol: owners-code-has-owners-rights).
 */
#pragma once

#include "pg/scope.h"

namespace pgq {

/*
 * Run one utility command or query. format and arguments: as for printf(). Raises an error if SPI
 * fails.
 */
void spi_run(const char *format, ...) pg_attribute_printf(1, 2);

/* The most arguments of a statement. */
inline constexpr int kSpiArgumentsMax = 24;

/* An argument of a statement: its type and value. */
struct SpiArgument
{
	Oid type;
	Datum value;
	bool is_null;
};

/*
 * Run one statement with parameters, and return the number of rows processed. The statement gets a
 * new snapshot, so at every isolation level it sees all rows that are committed by now.
 */
uint64 spi_execute(const char *sql, const SpiArgument *arguments, int n);

template <int n>
uint64
spi_execute(const char *sql, const SpiArgument (&arguments)[n])
{
	return spi_execute(sql, arguments, n);
}

/*
 * Open a cursor for a query that locks and changes no rows. The cursor has a snapshot of its own, as
 * in spi_execute(): it sees no later changes. spi_fetch() reads the next rows, at most `most`, and
 * returns their number. The caller reads them with spi_value(), and then frees them with
 * SPI_freetuptable().
 */
Portal spi_open(const char *sql, const SpiArgument *arguments, int n);
uint64 spi_fetch(Portal cursor, long most);

template <int n>
Portal
spi_open(const char *sql, const SpiArgument (&arguments)[n])
{
	return spi_open(sql, arguments, n);
}

/*
 * Return a value of the last statement's result. Raises 55000 if the value has another type,
 * because the table was altered.
 */
Datum spi_value(int row, int column, Oid type, bool *is_null);

/* Like spi_value() with is_null, but raises 55000 if the value is NULL. */
Datum spi_value(int row, int column, Oid type);

/*
 * Set options for the rest of a worker's transaction. First, no statement waits longer than 100 ms
 * for a lock: the worker has locked its tables, but not the row of a schedule or a named lock, or a
 * unique key that another transaction is enqueuing. Second, the planner uses TIDs and indexes, even
 * if the statistics say that another plan is cheaper.
 */
void read_few_rows();

/*
 * Let the planner use an index, even if the statistics favour another plan, until as_owner() ends.
 * read_in_order(): also if the rows must be sorted, which an index then does as far as it can.
 */
void find_by_index();
void read_in_order();

/* Call SPI_connect(), and raise an error if it fails. */
void spi_connect();

/*
 * Call SPI_connect(). From then on, a trigger or rule fires only if it is ENABLE ALWAYS or REPLICA.
 */
void spi_begin();

/*
 * Return the owner of pgq_ext.queue, whose rights a background worker uses; InvalidOid if there is
 * no such table. Takes no lock, so the answer may be outdated; lock_tables() checks the owner again
 * under the lock of the table.
 */
Oid owner_of_tables();

/*
 * Return the common owner of all tables. Raises 55000 if the tables have different owners: code
 * that one owner has added to a table would then run with the rights of another owner.
 */
Oid common_owner();

/* Run body() connected to SPI, with the rights of that role. */
template <typename Body>
void
with_spi_as(Oid role, Body body)
{
	with_rights_of(role, [&] {
		spi_begin();
		body();
		SPI_finish();
	});
}

/*
 * Run body() connected to SPI, with the rights of the common owner of all tables. Raises 55000 if
 * the tables have different owners.
 */
template <typename Body>
void
as_owner(Body body)
{
	with_spi_as(common_owner(), body);
}

/*
 * Like as_owner(), for queries that only read and lock rows, for which no trigger fires. So the call does
 * not change session_replication_role, and the server does not forget all plans of the session.
 */
template <typename Body>
void
as_owner_to_read(Body body)
{
	with_rights_of(common_owner(), [&] {
		spi_connect();
		body();
		SPI_finish();
	});
}

/* ---- statements that a background worker executes often ---- */

/*
 * Let plans live as long as nothing changes their tables, for the rest of the transaction: as_owner()
 * then does not change session_replication_role, and so the server does not forget all plans.
 */
void keep_plans();

/* A plan that the session keeps; first NULL. */
using KeptPlan = struct KeptPlanData *;

/*
 * Like spi_execute(), but plan the statement only once. *plan: where the session keeps the plan;
 * first NULL. The statement is planned with the options that hold in the first call, such as those
 * of read_few_rows().
 */
uint64 spi_execute_kept(KeptPlan *plan, const char *sql, const SpiArgument *arguments, int n);

template <int n>
uint64
spi_execute_kept(KeptPlan *plan, const char *sql, const SpiArgument (&arguments)[n])
{
	return spi_execute_kept(plan, sql, arguments, n);
}

} // namespace pgq
