#include "history.h"

#include <algorithm>
#include <cmath>

namespace web {

static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double
percentile(const Histogram &before, const Histogram &after, double part)
{
	auto times_below = [&](double bound, double count) {
		auto found = before.find(bound);
		return count - (found == before.end() ? 0 : found->second);
	};
	if (after.empty())
		return kUnknown;
	double all = times_below(after.rbegin()->first, after.rbegin()->second);
	if (!(all > 0))
		return kUnknown;
	double low = 0, below = 0;
	for (auto &[bound, count] : after)
	{
		double upto = times_below(bound, count);
		if (upto >= all * part)
			return std::isinf(bound)
					   ? low
					   : low + (bound - low) * (all * part - below) / std::max(upto - below, 1e-9);
		low = bound;
		below = upto;
	}
	return low;
}

/* ---- the curve of a queue ---- */

Point
Curve::nothing()
{
	float nan = std::numeric_limits<float>::quiet_NaN();
	return {nan, nan, nan, nan, nan, nan, nan, nan, nan, nan};
}

/* Add the rates since the last sample. A counter that is smaller than before has begun anew. */
void
Curve::add(const Counters &now, double seconds, size_t at)
{
	auto rate = [&](double Counters::*counter) {
		if (!last || !(seconds > 0))
			return std::numeric_limits<float>::quiet_NaN();
		double more = now.*counter - (*last).*counter;
		return static_cast<float>((more < 0 ? now.*counter : more) / seconds);
	};
	points[at] = {rate(&Counters::enqueued),
				  rate(&Counters::claimed),
				  rate(&Counters::acked),
				  rate(&Counters::failed),
				  rate(&Counters::died),
				  static_cast<float>(now.ready),
				  static_cast<float>(now.wait_p50),
				  static_cast<float>(now.wait_p95),
				  static_cast<float>(now.run_p50),
				  static_cast<float>(now.run_p95)};
	last = now;
}

double
Curve::mean(float Point::*rate, size_t at, size_t samples) const
{
	double sum = 0;
	size_t known = 0;
	for (size_t i = 0; i < samples; i++)
	{
		float value = points[(at + kSamples - i) % kSamples].*rate;
		if (!std::isnan(value))
			sum += value, known++;
	}
	return known == 0 ? kUnknown : sum / static_cast<double>(known);
}

/* ---- all queues ---- */

/* Compute the percentiles of all queues together from the histograms of the last minute. */
void
History::find_percentiles(size_t at)
{
	size_t back = std::min<size_t>(count, 60 / kSampleSeconds);
	if (back == 0)
		return;
	const Times &now = samples[at].times,
				&before = samples[(at + kSamples - back) % kSamples].times;
	last_percentiles.wait_p50 = percentile(before.wait, now.wait, 0.5);
	last_percentiles.wait_p95 = percentile(before.wait, now.wait, 0.95);
	last_percentiles.run_p50 = percentile(before.run, now.run, 0.5);
	last_percentiles.run_p95 = percentile(before.run, now.run, 0.95);
}

/* Add the sums of all queues. */
void
History::add_total(const std::map<std::string, Counters> &queues, double seconds, size_t at)
{
	Counters sum = last_percentiles;
	for (auto counter : {&Counters::enqueued, &Counters::claimed, &Counters::acked,
						 &Counters::failed, &Counters::died, &Counters::ready})
	{
		sum.*counter = 0;
		for (auto &[name, one] : queues)
			sum.*counter += one.*counter;
	}
	total.add(sum, seconds, at);
}

void
History::add(const std::string &time, double now, const std::map<std::string, Counters> &queues,
			 const Times *times)
{
	std::lock_guard lock(mutex);
	size_t at = count % kSamples;
	double seconds = count == 0 ? 0 : now - last_at;
	if (count == 0)
		last_percentiles.wait_p50 = last_percentiles.wait_p95 = last_percentiles.run_p50 =
			last_percentiles.run_p95 = kUnknown;
	Times last_times = count == 0 ? Times() : samples[(at + kSamples - 1) % kSamples].times;
	samples[at] = {time, times != nullptr ? *times : std::move(last_times)};
	if (times != nullptr)
		find_percentiles(at);
	add_total(queues, seconds, at);
	/* Forget queues that are gone, and add a point for each other queue. */
	std::erase_if(curves, [&](const auto &curve) { return !queues.contains(curve.first); });
	is_full = false;
	for (auto &[name, counters] : queues)
	{
		auto curve = curves.find(name);
		if (curve == curves.end() && curves.size() >= kMostQueues)
		{
			is_full = true;
			continue;
		}
		if (curve == curves.end())
			curve = curves.emplace(name, Curve()).first;
		curve->second.add(counters, seconds, at);
	}
	last_at = now;
	count++;
}

void
History::write(Json &json, const std::string &queue, bool shows_ready) const
{
	constexpr std::pair<const char *, float Point::*> kCurves[] = {
		{"enqueued", &Point::enqueued}, {"claimed", &Point::claimed},
		{"acked", &Point::acked},		{"failed", &Point::failed},
		{"died", &Point::died},			{"ready", &Point::ready},
		{"wait_p50", &Point::wait_p50}, {"wait_p95", &Point::wait_p95},
		{"run_p50", &Point::run_p50},	{"run_p95", &Point::run_p95}};
	std::lock_guard lock(mutex);
	/* Choose the curve; an unknown queue has no points. */
	auto found = curves.find(queue);
	const Curve *curve = queue == "*" ? &total : found == curves.end() ? nullptr : &found->second;
	size_t first = curve == nullptr ? count : count < kSamples ? 0 : count - kSamples;
	json.begin_object().name("times").begin_array();
	for (size_t i = first; i < count; i++)
		json.text(samples[i % kSamples].time);
	json.end_array();
	for (auto &[name, member] : kCurves)
	{
		json.name(name).begin_array();
		for (size_t i = first; i < count; i++)
			json.number(member == &Point::ready && !shows_ready
							? kUnknown
							: static_cast<double>(curve->point(i % kSamples).*member));
		json.end_array();
	}
	Notes notes;
	if (curve == nullptr)
		notes.insert(is_full ? "there are so many queues that this one has no curves"
							 : "there are no curves of this queue yet");
	write_notes(json, notes);
	json.end_object();
}

History::Pace
History::pace(const std::string &queue) const
{
	std::lock_guard lock(mutex);
	auto found = curves.find(queue);
	if (found == curves.end() || count == 0)
		return {kUnknown, kUnknown, kUnknown, kUnknown, kUnknown};
	size_t at = (count - 1) % kSamples, samples_of_a_minute = 60 / kSampleSeconds;
	const Curve &curve = found->second;
	return {curve.mean(&Point::enqueued, at, samples_of_a_minute),
			curve.mean(&Point::acked, at, samples_of_a_minute),
			curve.mean(&Point::failed, at, samples_of_a_minute), curve.point(at).wait_p95,
			curve.point(at).run_p95};
}

} // namespace web
