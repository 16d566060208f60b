/* The data of a look as a table for each screen. */
#pragma once

#include "rates.h"
#include "table.h"

namespace top {

enum class Screen
{
	queues,
	jobs,
	dead_letters,
	health,
	handlers,
	batches,
	help,
};
constexpr size_t kScreens = 7;

/* The form in which a table is shown. */
struct Form
{
	Charset charset;
	/*
	 * true: for a terminal, with short numbers and a line of bars for each queue; false: with all
	 * digits
	 */
	bool is_brief;
};

Table queue_table(const Snapshot &snapshot, const Memory &memory, Form how);
Table job_table(const Snapshot &snapshot, Form how);
Table dead_letter_table(const Snapshot &snapshot, Form how);
Table health_table(const Snapshot &snapshot, Form how);
Table handler_table(const Snapshot &snapshot, Form how);
Table batch_table(const Snapshot &snapshot, Form how);

} // namespace top
