#include "report.h"

#include "question.h"
#include "screens.h"

namespace top {

namespace {

/* Print all columns in full width. */
std::string
printed(const std::string &heading, const Table &table, Charset charset)
{
	std::string text = heading + "\n";
	if (table.rows.empty())
		return text + "  " + table.empty + "\n\n";
	constexpr int unlimited = 1 << 24;
	std::vector<int> widths = layout(table, unlimited);
	auto line_of = [&](auto text_of) {
		std::string line = " ";
		for (size_t i = 0; i < widths.size(); i++)
			line += " " + fitted(text_of(i), widths[i], table.columns[i].align, charset);
		return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
	};
	text += line_of([&](size_t i) { return table.columns[i].title; });
	for (const Row &row : table.rows)
		text += line_of([&](size_t i) { return row.cells[i].text; });
	return text + "\n";
}

Table
sorted(Table table, size_t column)
{
	sort(table, column, false);
	return table;
}

std::string
and_more(std::string heading, bool are_more, int n)
{
	return are_more ? heading + " (" + std::to_string(n) + " of more)" : heading;
}

} // namespace

std::string
report(const Snapshot &snapshot, const Memory &memory, Charset charset)
{
	const Form form = {charset, false};
	const Server &server = snapshot.server;
	std::string text = shown("pgq-top  " + server.taken_at + "  database " + server.database +
								 "  role " + server.role + "  PostgreSQL " + server.version +
								 (server.extension.empty() ? "" : "  pgq_ext " + server.extension) +
								 (server.is_standby ? "  standby" : ""),
							 charset) +
					   "\n\n";
	text += printed("Queues", queue_table(snapshot, memory, form), charset);
	text += printed(and_more("Jobs in work", snapshot.more_leases, kMostLeases),
					job_table(snapshot, form), charset);
	text += printed(and_more("Dead letters", snapshot.more_dead_letters, kMostDeadLetters),
					dead_letter_table(snapshot, form), charset);
	text += printed("Health", sorted(health_table(snapshot, form), 0), charset);
	text += printed("Handlers", sorted(handler_table(snapshot, form), 1), charset);
	text += printed(and_more("Batches", snapshot.more_batches, kMostBatches),
					sorted(batch_table(snapshot, form), 1), charset);
	if (!snapshot.notes.empty())
		text += "Notes\n";
	for (const std::string &one : snapshot.notes)
		text += "  " + shown(one, charset) + "\n";
	return text;
}

} // namespace top
