/*
 * The numbers of the last hour, in memory only: a thread samples the counters of the queues every
 * ten seconds. The arithmetic (add, write) needs no database.
 */
#pragma once

#include "line.h"

#include <limits>

namespace web {

constexpr int kSampleSeconds = 10;
constexpr size_t kSamples = 3600 / kSampleSeconds;

/* Counters of a queue since the start of the server, and numbers of now. Not a number: unknown. */
struct Counters
{
	double enqueued, claimed, acked, failed, died, ready;
	double wait_p50, wait_p95, run_p50, run_p95;
};

/* One point of the curves: rates per second since the sample before; the rest as in Counters. */
struct Point
{
	float enqueued, claimed, acked, failed, died, ready, wait_p50, wait_p95, run_p50, run_p95;
};

/* A histogram: the number of times below each bound (seconds), both ascending. */
using Histogram = std::map<double, double>;

/* Return the percentile (0..1) of the times between two states of a histogram; NaN: there were none. */
double percentile(const Histogram &before, const Histogram &after, double part);

/* The last points of a queue, a ring of kSamples. */
class Curve
{
public:
	void add(const Counters &now, double seconds, size_t at);
	const Point &point(size_t at) const { return points[at]; }
	/* Return the mean of a rate over the last samples before that place. */
	double mean(float Point::*rate, size_t at, size_t samples) const;

private:
	std::vector<Point> points = std::vector<Point>(kSamples, nothing());
	std::optional<Counters> last;

	static Point nothing();
};

class History
{
public:
	/* At most this many queues have curves of their own. */
	static constexpr size_t kMostQueues = 2000;

	/* The histograms of the times of all queues together. */
	struct Times
	{
		Histogram wait, run;
	};
	/* Add a sample: the counters of all queues. times: nullptr if they were not read this time. */
	void add(const std::string &time, double now, const std::map<std::string, Counters> &queues,
			 const Times *times);
	/*
	 * Write the curves of a queue, or of all queues together ("*"). shows_ready: false leaves the
	 * numbers of ready jobs unknown.
	 */
	void write(Json &json, const std::string &queue, bool shows_ready = true) const;
	/*
	 * Numbers of a queue, NaN: unknown. Jobs a second over the last minute; percentiles (seconds) of
	 * the last sample.
	 */
	struct Pace
	{
		double enqueued, acked, failed, wait_p95, run_p95;
	};
	Pace pace(const std::string &queue) const;

private:
	struct Sample
	{
		std::string time;
		Times times;
	};
	mutable std::mutex mutex;
	std::vector<Sample> samples = std::vector<Sample>(kSamples);
	size_t count = 0;
	double last_at = 0;
	std::map<std::string, Curve> curves;
	Curve total;
	/* The percentiles of the last sample with histograms. */
	Counters last_percentiles;
	bool is_full = false;

	void add_total(const std::map<std::string, Counters> &queues, double seconds, size_t at);
	void find_percentiles(size_t at);
};

} // namespace web
