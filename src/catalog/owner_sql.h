/*
 * Plain SQL for the rare paths: run with the rights of the extension's owner, in a restricted
 * operation, and with a search path that nobody else can influence
 * (protocol: owners-code-has-owners-rights).
 */
#pragma once

#include "pg/scope.h"

namespace pgq {

/* One utility command or query made from a format; fails if SPI fails. */
void spi_run(const char *format, ...) pg_attribute_printf(1, 2);

/* One statement with parameters. Returns the number of rows processed. */
struct SpiArgument
{
	Oid type;
	Datum value;
	bool is_null;
};

/*
 * Under a snapshot of its own, so that it sees what is committed by now in every
 * isolation level.
 */
uint64 spi_execute(const char *sql, const SpiArgument *arguments, int n);

template <int n>
uint64
spi_execute(const char *sql, const SpiArgument (&arguments)[n])
{
	return spi_execute(sql, arguments, n);
}

/* A value of the last result. Error 55000 if its type is another: somebody has altered the table. */
Datum spi_value(int row, int column, Oid type, bool *is_null);

/* The same, if it must not be NULL: error 55000. */
Datum spi_value(int row, int column, Oid type);

/*
 * For the rest of the transaction: a statement of a worker that has locked what it knows of waits for nobody (what
 * else there may be, the row of a schedule or a lock, or who is just enqueuing a job of the same unique key, ends in
 * an error after 100 ms), and reads few rows, by their places or an index, whatever the
 * statistics say.
 */
void read_few_rows();

/* Until the rights of the owner end (as_owner): by an index, whatever the statistics say. */
void find_by_index();

/* SPI_connect, and no triggers and rules from here on but those that the owner of a table wants always. */
void spi_begin();

/*
 * With whose rights a worker may touch the tables; invalid if they are not there. Waits for nobody,
 * and can be out of date in the next moment: lock_tables() looks again.
 */
Oid owner_of_tables();

/*
 * The owner of all of them. With more than one, code that one of them has added to a table would run with
 * the rights of another: error 55000.
 */
Oid common_owner();

/* Run body with the rights of that role, SPI connected. */
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

/* As the one owner of all tables: error 55000 if there are several. */
template <typename Body>
void
as_owner(Body body)
{
	with_spi_as(common_owner(), body);
}

} // namespace pgq
