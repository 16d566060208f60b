#include "frame.h"

#include "help.h"

#include <algorithm>

namespace top {

namespace {

/*
 * number of lines around the rows: above them title, summary, screens and heading, below them
 * message and keys
 */
constexpr int kLinesAround = 6;
constexpr int kMostNotes = 3;
constexpr size_t kMostDetail = 3;
constexpr Size kSmallest = {8, 40};
/* width of the names of all screens */
constexpr int kAllNames = 76;

/* Return a line in one style, with the text made safe for a terminal (shown() in text.h). */
Line
said(const std::string &text, const Scene &scene, Size size, Style style = Style::plain)
{
	return {{cut(shown(text, scene.charset), size.columns, scene.charset), style}};
}

/* ---- above the table ---- */

Line
title(const Scene &scene, Size size)
{
	std::string left = "pgq-top  " + scene.connection;
	std::string right;
	if (scene.snapshot != nullptr)
	{
		const Server &server = scene.snapshot->server;
		left += "  PostgreSQL " + server.version.substr(0, server.version.find(' '));
		if (!server.extension.empty())
			left += "  pgq_ext " + server.extension;
		if (server.is_standby)
			left += "  standby";
		right = server.clock + " UTC  every " + latency(scene.interval);
	}
	int room = size.columns - width_of(right) - 2;
	if (room < 20)
		return said(left, scene, size, Style::bold);
	return {{fitted(shown(left, scene.charset), room, Align::left, scene.charset), Style::bold},
			{"  " + right}};
}

/* Return the sum over all queues; unknown if the value of one queue is unknown. */
Count
sum(const Snapshot &snapshot, Count Queue::*member)
{
	Count n = 0;
	for (const auto &[name, queue] : snapshot.queues)
		n = n && queue.*member ? Count(*n + *(queue.*member)) : Count();
	return n;
}

std::string
queues_in_words(const Snapshot &snapshot)
{
	auto n = static_cast<int64_t>(snapshot.queues.size());
	auto paused = std::count_if(snapshot.queues.begin(), snapshot.queues.end(),
								[](const auto &one) { return one.second.paused.value_or(false); });
	std::string text = brief(n) + (n == 1 ? " queue" : " queues");
	if (paused > 0)
		text += " (" + brief(paused) + " paused)";
	Count blocked = sum(snapshot, &Queue::blocked);
	return text + ": " + brief(sum(snapshot, &Queue::ready)) + " ready, " +
		   brief(sum(snapshot, &Queue::scheduled)) + " scheduled, " +
		   (blocked.value_or(0) > 0 ? brief(blocked) + " blocked, " : "") +
		   brief(sum(snapshot, &Queue::leased)) + " leased, " + brief(sum(snapshot, &Queue::dead)) +
		   " dead";
}

/* Describe the failed and warning checks, failures first. */
Span
health_in_words(const Snapshot &snapshot)
{
	int64_t failed = 0, warned = 0;
	if (!snapshot.checks)
		return {"health: -", Style::dim};
	for (const Check &check : *snapshot.checks)
	{
		warned += check.status == "warn";
		failed += check.status != "warn" && check.status != "ok";
	}
	if (failed + warned == 0)
		return {"health: ok", Style::good};
	std::string text = "health: ";
	if (failed > 0)
		text += brief(failed) + " FAIL";
	if (warned > 0)
		text += (failed > 0 ? ", " : "") + brief(warned) + " WARN";
	return {text, failed > 0 ? Style::bad : Style::warn};
}

Line
summary(const Scene &scene, Size size)
{
	if (scene.snapshot == nullptr)
		return said("looking ...", scene, size);
	Span health = health_in_words(*scene.snapshot);
	int room = std::max(0, size.columns - width_of(health.text) - 2);
	std::string queues = cut(queues_in_words(*scene.snapshot), room, scene.charset);
	return {{queues + "  "}, health};
}

/*
 * Return the line with the names of the screens. On a narrow terminal, all screens except the
 * current one are shown by their keys only.
 */
Line
screens(Screen current, Size size)
{
	static constexpr std::string_view names[kScreens] = {
		"1 queues", "2 jobs", "3 dead letters", "4 health", "5 handlers", "6 batches", "h help"};
	Line line;
	for (size_t i = 0; i < kScreens; i++)
	{
		bool is_here = i == static_cast<size_t>(current);
		std::string name(
			names[i].substr(0, is_here || size.columns >= kAllNames ? names[i].npos : 1));
		line.push_back(
			{is_here ? "[" + name + "]" : " " + name + " ", is_here ? Style::bold : Style::plain});
	}
	return line;
}

/* ---- the table ---- */

Line
heading(const Table &table, const std::vector<int> &widths, const Scene &scene, Size size)
{
	std::string text = "  ";
	for (size_t i = 0; i < widths.size(); i++)
		if (widths[i] > 0)
			text +=
				fitted(table.columns[i].title, widths[i], table.columns[i].align, scene.charset) +
				" ";
	text.resize(text.find_last_not_of(' ') + 1);
	return {{fitted(text, size.columns, Align::left, scene.charset), Style::heading}};
}

/* Return the line of a row. The chosen row also has a mark, for terminals without reverse video. */
Line
row_line(const Table &table, const Row &row, const std::vector<int> &widths, bool is_chosen,
		 const Scene &scene, Size size)
{
	Line line = {{is_chosen ? "> " : "  ", is_chosen ? Style::selected : Style::plain}};
	int used = 2;
	for (size_t i = 0; i < widths.size(); i++)
	{
		if (widths[i] == 0)
			continue;
		const Cell &cell = row.cells[i];
		std::string text = fitted(cell.text, widths[i], table.columns[i].align, scene.charset);
		line.push_back({text, is_chosen ? Style::selected : cell.style});
		line.push_back({" ", is_chosen ? Style::selected : Style::plain});
		used += widths[i] + 1;
	}
	if (is_chosen && used < size.columns)
		line.push_back(
			{std::string(static_cast<size_t>(size.columns - used), ' '), Style::selected});
	return line;
}

void
add_table(std::vector<Line> &lines, State &state, const Scene &scene, Size size, size_t room)
{
	const Table &table = *scene.table;
	std::vector<int> widths = layout(table, size.columns - 2);
	lines.push_back(heading(table, widths, scene, size));
	if (table.rows.empty())
		lines.push_back(said("  " + table.empty, scene, size, Style::dim));
	/* Scroll so that the chosen row is visible. */
	Chosen &chosen = state.here();
	size_t last_first = table.rows.size() > room ? table.rows.size() - room : 0;
	chosen.first = std::min({chosen.first, chosen.row, last_first});
	if (chosen.row >= chosen.first + room)
		chosen.first = chosen.row + 1 - room;
	for (size_t i = chosen.first; i < table.rows.size() && i < chosen.first + room; i++)
		lines.push_back(row_line(table, table.rows[i], widths, i == chosen.row, scene, size));
}

/* ---- below the table ---- */

std::vector<Line>
detail(const State &state, const Scene &scene, Size size)
{
	std::vector<Line> lines;
	if (scene.table == nullptr || state.here().row >= scene.table->rows.size())
		return lines;
	std::string text = shown(scene.table->rows[state.here().row].detail, scene.charset);
	for (const std::string &part : wrapped(text, size.columns - 2, kMostDetail, scene.charset))
		lines.push_back({{"  " + part, Style::bold}});
	return lines;
}

std::vector<Line>
notes(const Scene &scene, Size size)
{
	std::vector<Line> lines;
	if (scene.snapshot == nullptr)
		return lines;
	const std::vector<std::string> &all = scene.snapshot->notes;
	for (size_t i = 0; i < all.size(); i++)
	{
		size_t left = all.size() - i;
		if (static_cast<int>(i) == kMostNotes - 1 && left > 1)
		{
			lines.push_back(
				said("! and " + std::to_string(left) + " more notes: see pgq-top --once", scene,
					 size, Style::dim));
			break;
		}
		lines.push_back(said("! " + all[i], scene, size, Style::dim));
	}
	return lines;
}

std::vector<Line>
below_table(const State &state, const Scene &scene, Size size)
{
	std::vector<Line> lines = detail(state, scene, size);
	for (Line &line : notes(scene, size))
		lines.push_back(std::move(line));
	return lines;
}

Line
message(const State &state, const Scene &scene, Size size)
{
	if (state.asked)
	{
		/* Keep room for the answer, even if the question is long. */
		const std::string answer = " [y/N]";
		std::string question = cut(shown(question_of(*state.asked), scene.charset),
								   size.columns - static_cast<int>(answer.size()), scene.charset);
		return {{question + answer, Style::bold}};
	}
	if (scene.is_acting)
		return said("waiting for the server ...", scene, size, Style::bold);
	if (!scene.trouble.empty())
		return said("NOT CONNECTED; " + scene.trouble, scene, size, Style::bad);
	return said(state.message, scene, size, Style::bold);
}

/*
 * Return the line with the keys. Actions that the role may not run are in parentheses; pressing
 * such a key shows the reason.
 */
Line
keys(const State &state, const Scene &scene, Size size)
{
	const bool is_narrow = size.columns < 60;
	Line line = {{is_narrow ? "h help  " : ""}};
	std::optional<Target> target;
	if (scene.snapshot != nullptr)
		target = target_of(state, *scene.snapshot);
	for (Deed deed : deeds_of(state.screen))
	{
		std::string text = std::string(1, name_of(deed).key) + " " + name_of(deed).verb;
		bool may = scene.snapshot != nullptr &&
				   forbidden(deed, *scene.snapshot, target ? target->queue : "").empty();
		line.push_back({may ? text : "(" + text + ")", may ? Style::plain : Style::dim});
		line.push_back({"  "});
	}
	if (!is_narrow)
		line.push_back({"<> sort  i invert  h help  q quit"});
	return line;
}

void
add_help(std::vector<Line> &lines, const Scene &scene, Size size, size_t room)
{
	for (size_t i = 0; i < kHelp.size() && i < room; i++)
		lines.push_back(said(kHelp[i], scene, size));
}

/* Cut spans that do not fit into the line. */
void
clip(Line &line, int columns, Charset charset)
{
	for (Span &span : line)
	{
		span.text = cut(span.text, columns, charset);
		columns -= width_of(span.text);
	}
}

} // namespace

size_t
rows_of(Size size)
{
	return static_cast<size_t>(std::max(1, size.lines - kLinesAround - kMostNotes));
}

std::vector<Line>
frame_of(State &state, const Scene &scene, Size size)
{
	if (size.lines < kSmallest.lines || size.columns < kSmallest.columns)
		return {said("too small", scene, size)};
	std::vector<Line> lines = {title(scene, size), summary(scene, size),
							   screens(state.screen, size)};
	/*
	 * Notes and details below the table may take all lines except three, which are kept for rows of
	 * the table.
	 */
	std::vector<Line> below;
	if (state.screen != Screen::help)
		below = below_table(state, scene, size);
	auto room = static_cast<size_t>(size.lines - kLinesAround);
	if (below.size() + 3 > room)
		below.resize(room > 3 ? room - 3 : 0);
	room -= below.size();

	if (state.screen == Screen::help)
		add_help(lines, scene, size, room + 1);
	else if (scene.table != nullptr && !scene.table->columns.empty())
		add_table(lines, state, scene, size, room);
	lines.resize(static_cast<size_t>(size.lines) - 2 - below.size());
	lines.insert(lines.end(), below.begin(), below.end());
	lines.push_back(message(state, scene, size));
	lines.push_back(keys(state, scene, size));
	for (Line &line : lines)
		clip(line, size.columns, scene.charset);
	return lines;
}

} // namespace top
