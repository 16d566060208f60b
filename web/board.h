/*
 * The numbers of all queues that a role may see, read in one statement and kept for a short time, so
 * that many requests cost one pass over the queues.
 */
#pragma once

#include "line.h"

#include <functional>

namespace web {

class Board
{
public:
	/* What the sampler needs of a queue. */
	using Ready = std::map<std::string, double>;

	/* Read the numbers again unless they are young enough. change: the number of the last change. */
	void refresh(Line::Use &use, uint64_t change);
	/* The next refresh() reads the numbers again: an action has changed them. */
	void forget();
	/* Return the number of ready jobs of each queue, after a refresh(). */
	Ready ready();

	/* What a request wants of the board. */
	struct Wish
	{
		std::string find, sort;
		size_t limit;
	};
	/* Writes further members of a queue. */
	using More = std::function<void(Json &json, const std::string &queue)>;
	/*
	 * Write the members totals, queues and more. The ages of the oldest ready jobs cost a search each,
	 * so they are read for the queues that are shown, and kept as long as the numbers.
	 */
	void write(Json &json, Notes &notes, Line::Use &use, const Wish &wish, const More &more);
	/* Write the numbers of one queue as members, without its name and whether it is paused. */
	void write_queue(Json &json, Notes &notes, Line::Use &use, const std::string &name);

private:
	static constexpr std::array<const char *, 5> kCounts = {"ready", "scheduled", "blocked",
															"leased", "dead"};
	struct Queue
	{
		std::string name, lower_name;
		/* row of `rows` */
		int row;
		/* the numbers of kCounts; not a number: unknown */
		std::array<double, kCounts.size()> counts;
		std::optional<double> age;
	};
	std::mutex mutex;
	std::optional<Rows> rows;
	std::vector<Queue> queues;
	Notes missing;
	/* seconds, steady_now() */
	double read_at = 0, took = 0;
	uint64_t read_for = 0;
	bool is_old = true, is_complete = false;
	int paused = 0;

	void read(Line::Use &use);
	static double number_of(const Queue &queue, const std::string &column);
	std::vector<Queue *> chosen(const Wish &wish);
	void find_ages(Line::Use &use, const std::vector<Queue *> &shown);
	void write_totals(Json &json) const;
};

} // namespace web
