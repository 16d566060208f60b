/*
 * The threads that look at the database by themselves: one samples the counters every ten seconds,
 * one looks every two seconds whether something has changed, if there is a stream to tell.
 */
#pragma once

#include "board.h"
#include "history.h"
#include "sessions.h"

#include <condition_variable>
#include <thread>

namespace web {

class Sampler
{
public:
	Sampler(const Address &started_with, Sessions &logged_in, History &hour, Board &numbers)
		: address(started_with), sessions(logged_in), history(hour), board(numbers)
	{}
	~Sampler() { stop(); }

	void start();
	void stop();

	/* At most this many streams are open at a time. */
	static constexpr int kMostStreams = 32;
	/* Count a stream. False: there are too many. Each true needs a close_stream(). */
	bool open_stream();
	void close_stream();
	/*
	 * Wait until something has changed since `seen`, for at most that many seconds. Returns the
	 * number to pass the next time; `seen`: nothing has changed.
	 */
	uint64_t wait_for_change(uint64_t seen, double seconds);
	/* The number of the last change. */
	uint64_t last_change() const { return changes; }
	bool is_stopping() const { return stopping; }

private:
	const Address &address;
	Sessions &sessions;
	History &history;
	Board &board;
	std::mutex mutex;
	std::condition_variable wake;
	std::atomic<bool> stopping = false;
	std::atomic<int> streams = 0;
	std::atomic<uint64_t> changes = 1;
	std::thread sample_thread, change_thread;

	void sample();
	void watch();
	/* When to read the histograms again (seconds, steady_now()). */
	double times_at = 0;

	void take_sample(Line &line);
	std::optional<History::Times> times_of(Line::Use &use);
	/* Sleep; false: the program ends. */
	bool rest(double seconds);
};

} // namespace web
