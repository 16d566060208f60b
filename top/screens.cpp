#include "screens.h"

#include "sparkline.h"

namespace top {

namespace {

constexpr int kTrend = 20;

/* ---- cells ---- */

Cell
text_cell(const std::optional<std::string> &text, Form form, Style style = Style::plain)
{
	if (!text)
		return {kUnknown, {}, Style::dim};
	return {shown(*text, form.charset), {true, 0, *text}, style};
}

template <typename Number>
Order
order_of(std::optional<Number> value)
{
	return value ? Order{true, static_cast<double>(*value)} : Order{};
}

Cell
count_cell(Count n, Form form, Style if_any = Style::plain)
{
	Style style = n && *n > 0 ? if_any : Style::plain;
	return {form.is_brief ? brief(n) : exact(n), order_of(n), style};
}

Cell
age_cell(Seconds seconds, Style style = Style::plain)
{
	return {age(seconds), order_of(seconds), style};
}

Cell
latency_cell(Seconds seconds)
{
	return {latency(seconds), order_of(seconds)};
}

Cell
rate_cell(std::optional<double> per_second)
{
	return {rate(per_second), order_of(per_second)};
}

/* Return a cell that says whether the queue is paused, if that is known. */
Cell
state_cell(std::optional<bool> paused)
{
	if (!paused)
		return {kUnknown, {}};
	return *paused ? Cell{"paused", {true, 1}, Style::warn} : Cell{"active", {true, 0}};
}

Cell
trend_cell(const std::vector<Count> &samples, Form form)
{
	return {sparkline(samples, kTrend, form.charset),
			order_of(samples.empty() ? Count() : samples.back())};
}

/* Return the text that is shown if there are no rows. */
std::string
instead(bool is_known, const char *empty)
{
	return is_known ? empty : "not known";
}

/* Return the list, empty if it is not known. */
template <typename Thing>
const std::vector<Thing> &
known(const std::optional<std::vector<Thing>> &things)
{
	static const std::vector<Thing> none;
	return things ? *things : none;
}

std::string
id_key(int64_t job_id)
{
	return std::to_string(job_id);
}

Column
number(const char *title, int rank = 0)
{
	return {title, Align::right, rank};
}

Column
words(const char *title, int rank, int least)
{
	return {title, Align::left, rank, least};
}

} // namespace

/* ---- queues ---- */

Table
queue_table(const Snapshot &snapshot, const Memory &memory, Form form)
{
	/*
	 * The ranks (table.h) make those columns stay longest that show whether there are jobs, and
	 * whether workers work on them.
	 */
	Table table;
	table.columns = {words("QUEUE", 0, 16), words("STATE", 2, 0), number("READY"),
					 number("SCHED", 4),	number("BLOCKED", 9), number("LEASED", 1),
					 number("DEAD", 1),		number("OLDEST", 2),  number("IN/S", 3),
					 number("OUT/S", 5),	number("ACK/S", 4),	  number("WAIT95", 6),
					 number("RUN95", 6),	number("WAITING", 7)};
	if (form.is_brief)
		table.columns.push_back(words("JOBS OVER TIME", 8, 0));
	table.empty = instead(snapshot.knows_queues, "no queues");
	for (const auto &[name, queue] : snapshot.queues)
	{
		QueueRates rates = memory.rates_of(name);
		Row row = {name,
				   {text_cell(name, form), state_cell(queue.paused), count_cell(queue.ready, form),
					count_cell(queue.scheduled, form), count_cell(queue.blocked, form),
					count_cell(queue.leased, form), count_cell(queue.dead, form, Style::bad),
					age_cell(queue.oldest_ready_age), rate_cell(rates.enqueued),
					rate_cell(rates.handed_out), rate_cell(rates.acked),
					latency_cell(queue.latency("wait_p95")), latency_cell(queue.latency("run_p95")),
					count_cell(queue.waiting_claims, form)},
				   ""};
		if (form.is_brief)
			row.cells.push_back(trend_cell(memory.jobs_of(name), form));
		table.rows.push_back(row);
	}
	return table;
}

/* ---- jobs in work ---- */

/*
 * Return the time left of a lease. A lease that an open transaction uses does not expire before
 * that transaction ends.
 */
static Cell
left_cell(const Lease &lease)
{
	bool is_over = lease.left && *lease.left <= 0;
	Cell cell = age_cell(lease.left, is_over ? Style::warn : Style::plain);
	if (lease.in_transaction.value_or(false))
		cell.text += " tx";
	return cell;
}

Table
job_table(const Snapshot &snapshot, Form form)
{
	Table table;
	table.columns = {number("JOB"),		   words("QUEUE", 0, 16), number("ATTEMPT", 2),
					 number("SINCE"),	   number("LEFT", 0),	  number("PID", 3),
					 words("WORKER", 1, 8)};
	table.empty = instead(snapshot.leases.has_value(), "no jobs in work");
	for (const Lease &lease : known(snapshot.leases))
		table.rows.push_back(
			{id_key(lease.job_id),
			 {count_cell(lease.job_id, {form.charset, false}), text_cell(lease.queue, form),
			  count_cell(lease.attempt, form), age_cell(lease.since), left_cell(lease),
			  count_cell(lease.pid, {form.charset, false}), text_cell(lease.worker, form)},
			 ""});
	return table;
}

/* ---- dead letters ---- */

Table
dead_letter_table(const Snapshot &snapshot, Form form)
{
	Table table;
	table.columns = {number("JOB"),			words("QUEUE", 0, 16), number("DIED", 0),
					 number("ATTEMPTS", 3), words("REASON", 2, 8), words("ERROR", 0, 10)};
	table.empty = instead(snapshot.dead_letters.has_value(), "no dead letters");
	for (const DeadLetter &letter : known(snapshot.dead_letters))
		table.rows.push_back(
			{id_key(letter.job_id),
			 {count_cell(letter.job_id, {form.charset, false}), text_cell(letter.queue, form),
			  age_cell(letter.died), count_cell(letter.attempts, form),
			  text_cell(letter.reason, form), text_cell(letter.error, form)},
			 letter.error.value_or("")});
	return table;
}

/* ---- health ---- */

static Cell
status_cell(const std::string &status, Form form)
{
	if (status == "ok")
		return {"ok", {true, 2}, Style::good};
	if (status == "warn")
		return {"WARN", {true, 1}, Style::warn};
	return {status == "fail" ? "FAIL" : shown(status, form.charset), {true, 0}, Style::bad};
}

Table
health_table(const Snapshot &snapshot, Form form)
{
	Table table;
	table.columns = {words("STATUS", 0, 0), words("CHECK", 0, 10), number("CHECKED", 1),
					 words("DETAIL", 0, 10), words("HINT", 2, 10)};
	table.empty = instead(snapshot.checks.has_value(), "no checks");
	for (const Check &check : known(snapshot.checks))
	{
		std::string detail = check.detail.value_or("");
		if (!check.hint.value_or("").empty())
			detail += (detail.empty() ? "" : " - ") + *check.hint;
		table.rows.push_back(
			{check.name + '\n' + check.detail.value_or(""),
			 {status_cell(check.status, form), text_cell(check.name, form), age_cell(check.checked),
			  text_cell(check.detail, form), text_cell(check.hint, form)},
			 detail});
	}
	return table;
}

/* ---- handlers ---- */

/* Return the state of a handler. Handlers that cannot run come first. */
static Cell
handler_state_cell(const Handler &handler, Form form)
{
	static constexpr std::array order = {"suspended", "waiting for a worker slot", "paused",
										 "active", "idle"};
	Cell cell = text_cell(handler.state, form);
	if (!handler.state)
		return cell;
	cell.order = {true, static_cast<double>(index_of(order, *handler.state))};
	if (cell.order.number < 3)
		cell.style = *handler.state == "suspended" ? Style::bad : Style::warn;
	return cell;
}

/* Return how many workers the handler has, and may have. */
static Cell
workers_cell(const Handler &handler)
{
	return {exact(handler.running) + "/" + exact(handler.workers), order_of(handler.running)};
}

/* Return the time until the next call, if the handler rests. */
static Cell
rest_cell(const Handler &handler)
{
	return handler.rest ? age_cell(handler.rest, Style::warn) : Cell{"", {}};
}

Table
handler_table(const Snapshot &snapshot, Form form)
{
	Table table;
	table.columns = {words("QUEUE", 0, 16), words("STATE", 0, 9),	 number("SINCE", 3),
					 number("WORKERS", 1),	number("CALLS", 2),		 number("FAILED", 1),
					 number("REST", 2),		words("FUNCTION", 4, 8), words("ROLE", 5, 8),
					 words("REASON", 2, 10)};
	table.empty = instead(snapshot.handlers.has_value(), "no handlers");
	for (const Handler &handler : known(snapshot.handlers))
	{
		const auto &reason = handler.reason ? handler.reason : handler.error;
		table.rows.push_back(
			{handler.queue,
			 {text_cell(handler.queue, form), handler_state_cell(handler, form),
			  handler.since ? age_cell(handler.since) : Cell{"", {}}, workers_cell(handler),
			  count_cell(handler.calls, form), count_cell(handler.failures, form, Style::bad),
			  rest_cell(handler), text_cell(handler.function, form), text_cell(handler.role, form),
			  reason ? text_cell(reason, form) : Cell{"", {}}},
			 reason.value_or("")});
	}
	return table;
}

/* ---- batches ---- */

/* Return the state of a batch. Batches whose callback could not be enqueued come first. */
static Cell
batch_state_cell(const Batch &batch, Form form)
{
	static constexpr std::array order = {"closed", "open", "finished"};
	if (batch.error)
		return {"callback fails", {true, -1}, Style::bad};
	Cell cell = text_cell(batch.state, form);
	if (batch.state)
		cell.order = {true, static_cast<double>(index_of(order, *batch.state))};
	if (batch.failed)
		cell.style = Style::warn;
	return cell;
}

/* Return how long ago something has happened to the batch, if it has. */
static Cell
event_cell(Seconds seconds, Style style = Style::plain)
{
	return seconds ? age_cell(seconds, style) : Cell{"", {}};
}

Table
batch_table(const Snapshot &snapshot, Form form)
{
	Table table;
	table.columns = {number("BATCH", 0),	words("STATE", 0, 14), number("CREATED", 1),
					 number("CLOSED", 2),	number("FAILED", 1),   number("FINISHED", 1),
					 number("NEXT TRY", 3), words("MAKER", 4, 8),  words("ERROR", 2, 10)};
	table.empty =
		instead(snapshot.batches.has_value(), "no batches, or all finished more than an hour ago");
	for (const Batch &batch : known(snapshot.batches))
		table.rows.push_back({std::to_string(batch.id),
							  {{std::to_string(batch.id), {true, static_cast<double>(batch.id)}},
							   batch_state_cell(batch, form),
							   age_cell(batch.created),
							   event_cell(batch.closed),
							   event_cell(batch.failed, Style::bad),
							   event_cell(batch.finished),
							   event_cell(batch.next_try, Style::warn),
							   text_cell(batch.maker, form),
							   batch.error ? text_cell(batch.error, form) : Cell{"", {}}},
							  batch.error.value_or("")});
	return table;
}

} // namespace top
