/*
 * Histograms of durations, with an error of at most 1/16.
 *
 * Durations are counted in buckets. Below 8 microseconds every microsecond has its own bucket. Each
 * octave above (from one power of two of microseconds to the next) is divided into 8 equal buckets.
 * So a bucket is never wider than an eighth of its start. A duration is reported as the middle of
 * its bucket, so the error is at most 1/16, or 6.3 %. 40 octaves reach to 2^42 microseconds, or 50
 * days; a longer duration counts as 2^42 - 1.
 *
 * Needs no server header and takes no lock. Times are microseconds of a clock that does not go
 * back.
 */
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>

namespace pgq {

template <typename Count> class Buckets
{
public:
	static constexpr int kOctaves = 40;
	static constexpr int kParts = 8;
	static constexpr int kBuckets = kOctaves * kParts;
	static constexpr int64_t kMost = (int64_t{1} << 42) - 1;

	static constexpr int bucket_of(int64_t duration)
	{
		if (duration < kParts)
			return static_cast<int>(duration);
		int octave = std::bit_width(static_cast<uint64_t>(duration)) - kPartBits;
		return octave * kParts + static_cast<int>(duration >> (octave - 1)) % kParts;
	}
	/*
	 * Return the shortest duration of the bucket. For the number after the last bucket, return the
	 * end of the last bucket.
	 */
	static constexpr int64_t start_of(int bucket)
	{
		int octave = bucket / kParts;
		return octave == 0 ? bucket : int64_t{kParts + bucket % kParts} << (octave - 1);
	}
	/* Return the duration that is reported for all durations of the bucket. */
	static constexpr int64_t middle_of(int bucket)
	{
		return (start_of(bucket) + start_of(bucket + 1) - 1) / 2;
	}
	static constexpr int64_t clamped(int64_t duration)
	{
		return std::clamp(duration, int64_t{0}, kMost);
	}

	void clear() { std::fill(std::begin(counts_), std::end(counts_), Count{0}); }
	void add(int64_t duration) { counts_[bucket_of(clamped(duration))]++; }
	Count at(int bucket) const { return counts_[bucket]; }

	int64_t count() const
	{
		int64_t all = 0;
		for (Count n : counts_)
			all += n;
		return all;
	}

	template <typename Other> void merge(const Buckets<Other> &other)
	{
		for (int i = 0; i < kBuckets; i++)
			counts_[i] += static_cast<Count>(other.at(i));
	}

	/*
	 * Return a percentile: the shortest duration that is not exceeded by `percent` percent of all
	 * durations. Return 0 if the histogram is empty.
	 */
	int64_t percentile(int percent) const
	{
		int64_t rank = (count() * percent + 99) / 100;
		int bucket = 0;
		for (int64_t seen = counts_[0]; seen < rank; seen += counts_[bucket])
			bucket++;
		return middle_of(bucket);
	}

private:
	static constexpr int kPartBits = 3;
	static_assert(1 << kPartBits == kParts);

	Count counts_[kBuckets];
};

/* Durations since the last clear(). */
class Histogram
{
public:
	using Counts = Buckets<int64_t>;

	void clear()
	{
		counts_.clear();
		sum_ = 0;
	}
	void add(int64_t duration)
	{
		counts_.add(duration);
		sum_ += static_cast<uint64_t>(Counts::clamped(duration));
	}
	const Counts &counts() const { return counts_; }
	/* The sum is exact, since durations are whole microseconds. */
	uint64_t sum() const { return sum_; }

private:
	Counts counts_;
	uint64_t sum_;
};

/*
 * Durations of the last five to ten minutes. Time is divided into parts of five minutes; the
 * present part and the part before it count.
 */
class RecentHistogram
{
public:
	using Counts = Buckets<uint32_t>;
	static constexpr int64_t kPart = int64_t{5} * 60 * 1000 * 1000;

	void clear()
	{
		newest_ = 0;
		for (Counts &part : parts_)
			part.clear();
	}
	void add(int64_t duration, int64_t now)
	{
		forget_before(now);
		parts_[newest_ % kParts].add(duration);
	}
	/* Return the counts at the time `now`. */
	Buckets<int64_t> counts(int64_t now) const
	{
		Buckets<int64_t> all;
		all.clear();
		int64_t part = std::max(now / kPart, newest_);
		for (int64_t counted = newest_; counted > newest_ - kParts && counted > part - kParts;
			 counted--)
			if (counted >= 0)
				all.merge(parts_[counted % kParts]);
		return all;
	}

private:
	static constexpr int64_t kParts = 2;

	/*
	 * Clear the parts that are too old. If `now` is before the newest part, because another process
	 * has read the clock later, the newest part stays, and durations count in it.
	 */
	void forget_before(int64_t now)
	{
		int64_t part = now / kPart;
		for (int64_t i = std::max(newest_ + 1, part - kParts + 1); i <= part; i++)
			parts_[i % kParts].clear();
		newest_ = std::max(newest_, part);
	}

	int64_t newest_; /* number of the newest part */
	Counts parts_[kParts];
};

} // namespace pgq
