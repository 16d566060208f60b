/* SQL statements that a background worker executes often. See owner_sql.h for the others. */
#pragma once

#include "catalog/owner_sql.h"

extern "C" {
#include "executor/spi.h"
}

namespace pgq {

/*
 * Let plans live as long as nothing changes their tables, for the rest of the transaction: as_owner()
 * then does not change session_replication_role, and so the server does not forget all plans.
 */
void keep_plans();

/*
 * Like spi_execute(), but plan the statement only once. *plan: the plan of the session, first NULL.
 * It is planned with the options that hold in the first call, such as those of read_few_rows().
 */
uint64 spi_execute_kept(SPIPlanPtr *plan, const char *sql, const SpiArgument *arguments, int n);

template <int n>
uint64
spi_execute_kept(SPIPlanPtr *plan, const char *sql, const SpiArgument (&arguments)[n])
{
	return spi_execute_kept(plan, sql, arguments, n);
}

} // namespace pgq
