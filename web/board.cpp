#include "board.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cwchar>
#include <cwctype>

namespace web {

/*
 * Numbers are kept for 100 times as long as they took to read, so reading them uses at most 1 % of a
 * processor; a change of the counters (a tick) makes them old at once.
 */
static constexpr double kKeepFactor = 100, kLeastKept = 0.2, kMostKept = 30;

/* Return the text in lower case, by the locale of the program. Bytes that are no text stay. */
static std::string
in_lower_case(std::string_view text)
{
	std::string lower;
	std::mbstate_t from = {}, to = {};
	while (!text.empty())
	{
		wchar_t c;
		char bytes[MB_LEN_MAX];
		size_t size = std::mbrtowc(&c, text.data(), text.size(), &from);
		if (size == 0 || size > text.size())
		{
			lower += text[0];
			text.remove_prefix(1);
			from = {};
			continue;
		}
		size_t written = std::wcrtomb(bytes, static_cast<wchar_t>(std::towlower(c)), &to);
		lower.append(written <= sizeof(bytes) ? std::string_view(bytes, written)
											  : text.substr(0, size));
		text.remove_prefix(size);
	}
	return lower;
}

void
Board::forget()
{
	std::lock_guard lock(mutex);
	is_old = true;
}

void
Board::refresh(Line::Use &use, uint64_t change)
{
	std::lock_guard lock(mutex);
	double age = steady_now() - read_at;
	if (!is_old && change == read_for &&
		age < std::clamp(took * kKeepFactor, kLeastKept, kMostKept))
		return;
	is_old = true;
	read(use);
	read_for = change;
	is_old = false;
}

/* Read the columns that come from memory; the view does not search for the oldest job then. */
void
Board::read(Line::Use &use)
{
	/* Forget the old numbers. */
	double start = steady_now();
	rows.reset();
	queues.clear();
	missing.clear();
	paused = 0;
	is_complete = use.catalog.can_read(
		"queue_status", {"queue", "ready", "scheduled", "blocked", "leased", "dead", "paused"});
	std::string list = use.catalog.list("queue_status", "v", missing, {}, {"oldest_ready_age"});
	if (!is_complete)
	{
		missing.insert("role " + use.catalog.role + " may not read all of pgq_ext.queue_status");
		return;
	}
	rows = use.connection.read("SELECT " + list + " FROM pgq_ext.queue_status v ORDER BY v.queue");
	/* Keep the numbers by which requests sort and add up. */
	for (int row = 0; row < rows->size(); row++)
	{
		Queue queue = {rows->value(row, "queue").value_or(""), "", row, {}, {}};
		queue.lower_name = in_lower_case(queue.name);
		for (size_t i = 0; i < kCounts.size(); i++)
			queue.counts[i] = rows->number(row, kCounts[i]).value_or(std::nan(""));
		queues.push_back(std::move(queue));
		paused += rows->value(row, "paused") == "t";
	}
	read_at = steady_now();
	took = read_at - start;
}

Board::Ready
Board::ready()
{
	std::lock_guard lock(mutex);
	Ready ready;
	for (const Queue &queue : queues)
		ready[queue.name] = queue.counts[0];
	return ready;
}

double
Board::number_of(const Queue &queue, const std::string &column)
{
	for (size_t i = 0; i < kCounts.size(); i++)
		if (column == kCounts[i])
			return queue.counts[i];
	return queue.age.value_or(std::nan(""));
}

/* Return the queues that a request wants to see, in its order. They stay sorted by name otherwise. */
std::vector<Board::Queue *>
Board::chosen(const Wish &wish)
{
	std::vector<Queue *> wanted;
	std::string find = in_lower_case(wish.find);
	for (Queue &queue : queues)
		if (queue.lower_name.find(find) != std::string::npos)
			wanted.push_back(&queue);
	if (wish.sort.empty() || wish.sort == "queue")
		return wanted;
	/* Largest first; unknown numbers last. */
	auto key = [&](const Queue *queue) {
		double number = number_of(*queue, wish.sort);
		return std::isnan(number) ? -1 : number;
	};
	std::stable_sort(wanted.begin(), wanted.end(),
					 [&](const Queue *a, const Queue *b) { return key(a) > key(b); });
	return wanted;
}

/* Find how long the oldest ready job of each queue has been due. */
void
Board::find_ages(Line::Use &use, const std::vector<Queue *> &shown)
{
	std::map<std::string, Queue *> wanted;
	std::string list = "{";
	for (Queue *queue : shown)
	{
		if (queue->age)
			continue;
		queue->age = std::nan("");
		if (!(queue->counts[0] > 0))
			continue;
		wanted[queue->name] = queue;
		list += (list.size() > 1 ? "," : "") + json_text(queue->name);
	}
	if (wanted.empty() || !use.catalog.can_read("queue_status", {"oldest_ready_age"}) ||
		!use.catalog.can_read("queue", {"queue", "queue_id"}))
		return;
	Rows ages = use.connection.read(
		"SELECT q.queue, extract(epoch FROM clock_timestamp() - pgq_ext.oldest_ready(q.queue_id))"
		"::float8 AS age FROM pgq_ext.queue q WHERE q.queue = ANY ("
		"ARRAY(SELECT jsonb_array_elements_text($1::jsonb)))",
		{"[" + list.substr(1) + "]"});
	for (int row = 0; row < ages.size(); row++)
		wanted.at(ages.value(row, "queue").value_or(""))->age =
			ages.number(row, "age").value_or(std::nan(""));
}

void
Board::write_totals(Json &json) const
{
	json.name("totals").begin_object();
	json.name("queues").text(std::to_string(queues.size()));
	for (size_t i = 0; i < kCounts.size(); i++)
	{
		/* The sum of what is known; null if nothing is. */
		double sum = 0;
		bool is_known = false;
		for (const Queue &queue : queues)
			if (double number = queue.counts[i]; !std::isnan(number))
				sum += number, is_known = true;
		json.name(kCounts[i])
			.text_or_null(is_known ? Value(std::to_string(static_cast<int64_t>(sum))) : Value());
	}
	json.name("paused").text(std::to_string(paused)).end_object();
}

void
Board::write(Json &json, Notes &notes, Line::Use &use, const Wish &wish, const More &more)
{
	std::lock_guard lock(mutex);
	notes.insert(missing.begin(), missing.end());
	if (!rows || !is_complete)
	{
		json.name("totals").null().name("queues").begin_array().end_array();
		json.name("more").flag(false);
		return;
	}
	/* The order by age needs the ages of all queues first. */
	if (wish.sort == "oldest_ready_age")
		find_ages(use, chosen({wish.find, "", 0}));
	std::vector<Queue *> shown = chosen(wish);
	bool has_more = shown.size() > wish.limit;
	shown.resize(std::min(shown.size(), wish.limit));
	find_ages(use, shown);

	write_totals(json);
	json.name("queues").begin_array();
	for (const Queue *queue : shown)
	{
		json.begin_object();
		write_members(json, *rows, queue->row);
		json.name("oldest_ready_age").number(queue->age.value_or(std::nan("")));
		more(json, queue->name);
		json.end_object();
	}
	json.end_array().name("more").flag(has_more);
}

void
Board::write_queue(Json &json, Notes &notes, Line::Use &use, const std::string &name)
{
	std::lock_guard lock(mutex);
	notes.insert(missing.begin(), missing.end());
	for (Queue &queue : queues)
	{
		if (queue.name != name)
			continue;
		find_ages(use, {&queue});
		for (int n = 0; n < rows->columns(); n++)
			if (rows->column(n) != "queue" && rows->column(n) != "paused")
				write_members(json, *rows, queue.row, n, n);
		json.name("oldest_ready_age").number(queue.age.value_or(std::nan("")));
	}
}

} // namespace web
