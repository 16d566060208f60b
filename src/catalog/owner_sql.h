/*
 * SQL statements for operations that are rare. They run with the rights of the owner of the
 * extension's tables, in a security-restricted operation, with a fixed search path
 * (protocol: owners-code-has-owners-rights).
 */
#pragma once

#include "pg/scope.h"

namespace pgq {

/*
 * Run one utility command or query, whose text is made from a format. Raises an error if SPI fails.
 */
void spi_run(const char *format, ...) pg_attribute_printf(1, 2);

/* An argument of a statement: its type and value. */
struct SpiArgument
{
	Oid type;
	Datum value;
	bool is_null;
};

/*
 * Run one statement with parameters, and return the number of rows processed. The statement gets a
 * snapshot of its own, so at every isolation level it sees all that is committed by now.
 */
uint64 spi_execute(const char *sql, const SpiArgument *arguments, int n);

template <int n>
uint64
spi_execute(const char *sql, const SpiArgument (&arguments)[n])
{
	return spi_execute(sql, arguments, n);
}

/*
 * Return a value of the last result. Raises 55000 if it has another type, since the table was
 * altered.
 */
Datum spi_value(int row, int column, Oid type, bool *is_null);

/* Like the first form, but raises 55000 if the value is NULL. */
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
 */
void find_by_index();

/*
 * Call SPI_connect(). From here on, only triggers and rules fire that are ENABLE ALWAYS or REPLICA.
 */
void spi_begin();

/*
 * Return the owner of pgq_ext.queue, with whose rights a worker may use the tables; InvalidOid if
 * there is no such table. Takes no lock, so the answer may be outdated: lock_tables() checks it.
 */
Oid owner_of_tables();

/*
 * Return the common owner of all tables. Raises 55000 if there are several owners: code that one of
 * them has added to a table would then run with the rights of another.
 */
Oid common_owner();

/* Run body connected to SPI, with the rights of that role. */
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

/* Run body as the common owner of all tables. Raises 55000 if there are several owners. */
template <typename Body>
void
as_owner(Body body)
{
	with_spi_as(common_owner(), body);
}

} // namespace pgq
