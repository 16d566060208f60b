#include "sampler.h"

#include <algorithm>
#include <cmath>
#include <deque>

namespace web {

/*
 * Three queries are repeated: counters, histograms, changes. After each one rest 600 times as long as
 * it took, so that all of them use at most 0.5 % of a processor.
 */
static constexpr double kRestFactor = 600;

void
Sampler::start()
{
	sample_thread = std::thread([this] { sample(); });
	change_thread = std::thread([this] { watch(); });
}

void
Sampler::stop()
{
	{
		std::lock_guard lock(mutex);
		stopping = true;
	}
	wake.notify_all();
	for (std::thread *one : {&sample_thread, &change_thread})
		if (one->joinable())
			one->join();
}

bool
Sampler::rest(double seconds)
{
	std::unique_lock lock(mutex);
	wake.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return stopping.load(); });
	return !stopping;
}

/* ---- samples ---- */

static double
known(const Rows &rows, int row, const char *column)
{
	return rows.number(row, column).value_or(std::nan(""));
}

static std::map<std::string, Counters>
counters_of(const Rows &rows, const Board::Ready &ready)
{
	std::map<std::string, Counters> queues;
	for (int row = 0; row < rows.size(); row++)
	{
		std::string queue = rows.value(row, "queue").value_or("");
		auto found = ready.find(queue);
		queues[queue] = {
			known(rows, row, "enqueued"),	   known(rows, row, "handed_out"),
			known(rows, row, "acked"),		   known(rows, row, "failed"),
			known(rows, row, "dead_lettered"), found == ready.end() ? std::nan("") : found->second,
			known(rows, row, "wait_p50"),	   known(rows, row, "wait_p95"),
			known(rows, row, "run_p50"),	   known(rows, row, "run_p95")};
	}
	return queues;
}

static Histogram
histogram_of(const Rows &rows, const char *phase)
{
	Histogram histogram;
	for (int row = 0; row < rows.size(); row++)
		if (rows.value(row, "phase") == phase)
		{
			bool is_last = rows.value(row, "le_seconds") == "Infinity";
			double bound =
				is_last ? std::numeric_limits<double>::infinity() : known(rows, row, "le_seconds");
			histogram[bound] = known(rows, row, "count");
		}
	return histogram;
}

/* Read the histograms of all queues, unless that would be too often. */
std::optional<History::Times>
Sampler::times_of(Line::Use &use)
{
	double start = steady_now();
	if (start < times_at ||
		!use.catalog.can_read("queue_latency", {"phase", "le_seconds", "count"}))
		return {};
	Rows rows = use.connection.read(
		"SELECT phase, le_seconds, sum(count)::float8 AS count FROM pgq_ext.queue_latency"
		" WHERE phase IN ('wait', 'run') GROUP BY phase, le_seconds");
	times_at = steady_now() + kRestFactor * (steady_now() - start);
	return History::Times{histogram_of(rows, "wait"), histogram_of(rows, "run")};
}

void
Sampler::take_sample(Line &line)
{
	Line::Use use = line.use(&address);
	if (!use.catalog.can_read(
			"queue_stats", {"queue", "enqueued", "handed_out", "acked", "failed", "dead_lettered"}))
		return;
	Rows counters = use.connection.read(
		"SELECT s.queue, s.enqueued, s.handed_out, s.acked, s.failed, s.dead_lettered,"
		" extract(epoch FROM s.wait_p50) AS wait_p50, extract(epoch FROM s.wait_p95) AS wait_p95,"
		" extract(epoch FROM s.run_p50) AS run_p50, extract(epoch FROM s.run_p95) AS run_p95"
		" FROM pgq_ext.queue_stats s");
	board.refresh(use, changes);
	std::optional<History::Times> times = times_of(use);
	Rows clock = use.connection.read(
		"SELECT " + shown_as("clock_timestamp()", "timestamp with time zone") + " AS now");
	history.add(clock.value(0, "now").value_or(""), steady_now(),
				counters_of(counters, board.ready()), times ? &*times : nullptr);
}

/* Take a sample every ten seconds, later if the queries take so long that they would be a load. */
void
Sampler::sample()
{
	Line line;
	std::string trouble;
	for (double wait = 0; rest(wait);)
	{
		double start = steady_now(), times_were_due_at = times_at;
		try
		{
			sessions.expire();
			take_sample(line);
			trouble.clear();
		}
		catch (const Failure &failure)
		{
			if (trouble != failure.message)
				fprintf(stderr, "pgq-web: no sample: %s %s\n", one_line(failure.message).c_str(),
						one_line(failure.detail).c_str());
			trouble = failure.message;
		}
		double took = steady_now() - start;
		/* The histograms have an interval of their own. */
		bool has_times = times_at != times_were_due_at;
		wait =
			has_times ? kSampleSeconds - took : std::max(kSampleSeconds - took, kRestFactor * took);
		wait = std::max(wait, 1.0);
		/* A connection attempt that waits for an unreachable host costs the server nothing. */
		if (!trouble.empty())
			wait = kSampleSeconds;
	}
}

/* ---- changes ---- */

bool
Sampler::open_stream()
{
	if (++streams <= kMostStreams)
	{
		wake.notify_all();
		return true;
	}
	streams--;
	return false;
}

void
Sampler::close_stream()
{
	streams--;
}

uint64_t
Sampler::wait_for_change(uint64_t seen, double seconds)
{
	std::unique_lock lock(mutex);
	wake.wait_for(lock, std::chrono::duration<double>(seconds),
				  [&] { return stopping || changes != seen; });
	return changes;
}

/* Compare sums of all counters. A role that may not read them hears of a change every ten seconds. */
void
Sampler::watch()
{
	const std::string sums =
		"SELECT sum(enqueued + deduplicated + handed_out + acked + failed + released + cancelled + "
		"lost"
		" + dead_lettered + expired + uncounted)::text || ' ' || count(*)::text || ' ' ||"
		" (SELECT count(*) FILTER (WHERE paused) FROM pgq_ext.queue)::text AS sums"
		" FROM pgq_ext.queue_stats";
	/* The shortest of the last times is the cost of the query; the others waited for a processor. */
	std::deque<double> times;
	Line line;
	Value last;
	for (double wait = 2; rest(wait);)
	{
		wait = 2;
		if (streams == 0)
			continue;
		/* Read the sums. */
		double start = steady_now();
		Value now;
		try
		{
			now = line.use(&address).connection.read(sums).value(0, "sums");
			times.push_back(steady_now() - start);
			if (times.size() > 5)
				times.pop_front();
			wait = std::max(2.0, kRestFactor * *std::min_element(times.begin(), times.end()));
		}
		catch (const Failure &)
		{
			wait = kSampleSeconds;
		}
		/* Tell the streams, unless the sums are the same. */
		if (now && now == last)
			continue;
		last = now;
		std::lock_guard lock(mutex);
		changes++;
		wake.notify_all();
	}
}

} // namespace web
