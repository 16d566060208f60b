/*
 * SQL statements for rare paths. They run with the rights of the owner of the extension's tables,
 * in a security-restricted operation, with a fixed search path
 * (protocol: owners-code-has-owners-rights).
 */
#pragma once

#include "pg/scope.h"

namespace pgq {

/* Run one utility command or query, made from a format. Raise an error if SPI fails. */
void spi_run(const char *format, ...) pg_attribute_printf(1, 2);

/* Run one statement with parameters, and return the number of rows processed. */
struct SpiArgument
{
	Oid type;
	Datum value;
	bool is_null;
};

/*
 * The statement gets a snapshot of its own, so it sees what is committed by now at every isolation
 * level.
 */
uint64 spi_execute(const char *sql, const SpiArgument *arguments, int n);

template <int n>
uint64
spi_execute(const char *sql, const SpiArgument (&arguments)[n])
{
	return spi_execute(sql, arguments, n);
}

/* Return a value of the last result. Error 55000 if it has another type: the table was altered. */
Datum spi_value(int row, int column, Oid type, bool *is_null);

/* The same, with error 55000 if the value is NULL. */
Datum spi_value(int row, int column, Oid type);

/*
 * Set options for the rest of a worker's transaction. A statement waits for no lock longer than 100
 * ms: the worker has locked its tables, but not the row of a schedule or a named lock, or a unique
 * key that another transaction is enqueuing. The planner uses TIDs and indexes, whatever the
 * statistics say.
 */
void read_few_rows();

/* Let the planner use an index, whatever the statistics say, until as_owner() ends. */
void find_by_index();

/*
 * Call SPI_connect(). From here on only triggers and rules fire that are ENABLE ALWAYS or REPLICA.
 */
void spi_begin();

/*
 * Return the owner of pgq_ext.queue, with whose rights a worker may use the tables; invalid if
 * there is none. Takes no lock, so the answer may be outdated: lock_tables() checks again.
 */
Oid owner_of_tables();

/*
 * Return the common owner of all tables. Error 55000 if there are several: code that one owner has
 * added to a table would then run with the rights of another.
 */
Oid common_owner();

/* Run body with the rights of that role, connected to SPI. */
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

/* Run body as the common owner of all tables (error 55000 if there are several). */
template <typename Body>
void
as_owner(Body body)
{
	with_spi_as(common_owner(), body);
}

} // namespace pgq
