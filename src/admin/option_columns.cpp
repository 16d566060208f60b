#include "admin/option_columns.h"

#include "catalog/owner_sql.h"
#include "catalog/queue_columns.h"
#include "catalog/tables.h"
#include "load/attach.h"

namespace pgq {

/* A statement has an argument for each option, and one for the name of the queue. */
static_assert(kQueueOptions + 1 <= kSpiArgumentsMax);

/*
 * Return whether the option is a later one and has its default, so that its column, which the table
 * may lack, need not be written. All later options are flags that are off by default.
 */
static bool
is_left_out(int i, Datum value)
{
	return is_later_option(i) && !DatumGetBool(value);
}

void
insert_queue_row(const char *name, const Datum *options)
{
	SpiArgument row[1 + kQueueOptions] = {{TEXTOID, CStringGetTextDatum(name), false}};
	int n = 1;
	StringInfoData columns;
	StringInfoData values;
	initStringInfo(&columns);
	initStringInfo(&values);
	for (int i = 0; i < kQueueOptions; i++)
	{
		if (!queue_options[i].is_argument || is_left_out(i, options[i]))
			continue;
		if (is_later_option(i))
			require_later_options(tables());
		row[n++] = {type_of(queue_options[i].kind), options[i], false};
		appendStringInfo(&columns, ", %s", queue_options[i].name);
		appendStringInfo(&values, ", $%d", n);
	}
	spi_execute(
		psprintf("INSERT INTO pgq_ext.queue (queue%s) VALUES ($1%s)", columns.data, values.data),
		row, n);
}

bool
update_queue_row(const char *name, const Datum *options, const bool *given)
{
	SpiArgument row[1 + kQueueOptions] = {{TEXTOID, CStringGetTextDatum(name), false}};
	int n = 1;
	StringInfoData set;
	initStringInfo(&set);
	for (int i = 0; i < kQueueOptions; i++)
	{
		if (!given[i])
			continue;
		if (is_later_option(i))
			require_later_options(tables());
		row[n++] = {type_of(queue_options[i].kind), options[i], false};
		appendStringInfo(&set, "%s%s = $%d", n > 2 ? ", " : "", queue_options[i].name, n);
	}
	return n > 1 &&
		   spi_execute(psprintf("UPDATE pgq_ext.queue SET %s WHERE queue OPERATOR(pg_catalog.=) $1",
								set.data),
					   row, n) > 0;
}

} // namespace pgq
