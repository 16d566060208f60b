/* Tests of how pgq-top shows its data, and reacts to keys. */
#include "top/frame.h"
#include "top/options.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace {

using namespace top;

/* ---- rates ---- */

TEST(Rates, NothingIsKnownOfCountersThatBeganAnew)
{
	EXPECT_EQ(rate_of(10, 30, 2), 10);
	EXPECT_EQ(rate_of(10, 10, 2), 0);
	EXPECT_EQ(rate_of({}, 10, 2), std::nullopt);
	EXPECT_EQ(rate_of(10, {}, 2), std::nullopt);
	EXPECT_EQ(rate_of(10, 9, 2), std::nullopt);
	EXPECT_EQ(rate_of(10, 30, 0), std::nullopt);
}

Snapshot
seen(double at, Count enqueued, const char *since, Count ready = 0)
{
	Snapshot snapshot;
	snapshot.counted_at = at;
	snapshot.knows_queues = true;
	Queue &queue = snapshot.queues["mail"];
	queue.name = "mail";
	queue.stats_since = since;
	queue.counters[index_of(kCounters, "enqueued")] = enqueued;
	queue.ready = ready;
	queue.scheduled = queue.leased = 0;
	return snapshot;
}

TEST(Memory, RatesAreBetweenTwoLooks)
{
	Memory memory;
	EXPECT_EQ(memory.rates_of("mail").enqueued, std::nullopt);
	memory.add(seen(100, 10, "monday"));
	EXPECT_EQ(memory.rates_of("mail").enqueued, std::nullopt);
	memory.add(seen(104, 30, "monday"));
	EXPECT_EQ(memory.rates_of("mail").enqueued, 5);
	EXPECT_EQ(memory.rates_of("mail").acked, std::nullopt);
	/* The server was restarted: it has counted more than before, but from 0. */
	memory.add(seen(106, 40, "tuesday"));
	EXPECT_EQ(memory.rates_of("mail").enqueued, std::nullopt);
	memory.add(seen(108, 42, "tuesday"));
	EXPECT_EQ(memory.rates_of("mail").enqueued, 1);
}

TEST(Memory, JobsOverTime)
{
	Memory memory;
	for (int64_t n = 0; n < 1000; n++)
		memory.add(seen(static_cast<double>(n), 0, "monday", n));
	memory.add(seen(1000, 0, "monday", {}));
	const std::vector<Count> &jobs = memory.jobs_of("mail");
	EXPECT_LT(jobs.size(), 1000U);
	EXPECT_EQ(jobs[jobs.size() - 2], 999);
	EXPECT_EQ(jobs.back(), std::nullopt);
	/* A queue that was dropped is forgotten. */
	memory.add(Snapshot());
	EXPECT_TRUE(memory.jobs_of("mail").empty());
}

/* ---- tables ---- */

Table
three_columns()
{
	Table table;
	table.columns = {{"NAME", Align::left, 0, 4}, {"N", Align::right, 0}, {"MORE", Align::left, 1}};
	for (const char *name : {"a long name", "b", "c"})
		table.rows.push_back({name, {{name, {true, 0, name}}, {"1"}, {"x"}}, ""});
	return table;
}

TEST(Layout, RanksAreLeftOutAndNamesCut)
{
	using Widths = std::vector<int>;
	Table table = three_columns();
	EXPECT_EQ(layout(table, 80), Widths({11, 1, 4}));
	EXPECT_EQ(layout(table, 18), Widths({11, 1, 4}));
	EXPECT_EQ(layout(table, 15), Widths({8, 1, 4}));
	EXPECT_EQ(layout(table, 11), Widths({4, 1, 4}));
	EXPECT_EQ(layout(table, 10), Widths({8, 1, 0}));
	/* If even that is too wide, the terminal cuts the line. */
	EXPECT_EQ(layout(table, 2), Widths({4, 1, 0}));
}

TEST(Layout, TheHighestRankIsLeftOutFirst)
{
	using Widths = std::vector<int>;
	Table table;
	table.columns = {{"N"}, {"TWO", Align::left, 2}, {"ONE", Align::left, 1}};
	EXPECT_EQ(layout(table, 9), Widths({1, 3, 3}));
	EXPECT_EQ(layout(table, 8), Widths({1, 0, 3}));
	EXPECT_EQ(layout(table, 4), Widths({1, 0, 0}));
}

TEST(Sort, WhatIsNotKnownIsLast)
{
	Table table;
	table.columns = {{"N"}};
	for (double n : {2, 0, 3, 1})
		table.rows.push_back({std::to_string(n), {{"", n == 0 ? Order() : Order{true, n}}}, ""});
	auto keys = [&] {
		std::string all;
		for (const Row &row : table.rows)
			all += row.key[0];
		return all;
	};
	sort(table, 0, false);
	EXPECT_EQ(keys(), "1230");
	sort(table, 0, true);
	EXPECT_EQ(keys(), "3210");
}

/* ---- keys ---- */

class Keys : public testing::Test
{
protected:
	Snapshot snapshot = seen(0, 0, "monday", 12);
	Memory memory;
	State state;
	Table table;

	void SetUp() override
	{
		snapshot.server.role = "operator";
		for (const char *function :
			 {"pgq_pause_queue", "pgq_resume_queue", "pgq_redrive", "pgq_retry", "pgq_cancel"})
			snapshot.functions[function] = {std::string("public.") + function, true};
		snapshot.queues["orders"] = {.name = "orders"};
		snapshot.leases = {{17, "mail", 1, 4711, "w1", 3.0, 60.0, false}};
		snapshot.dead_letters = {{5, "mail", 60.0, 3, "attempts used up", "no\x1b[2J way"}};
		snapshot.handlers = {{.queue = "mail",
							  .state = "idle",
							  .function = "f(pgq_ext.claimed_job)",
							  .role = "hand",
							  .workers = 2,
							  .running = 1,
							  .calls = 30,
							  .failures = 29,
							  .error = "no\x1b[2J way",
							  .rest = 12.0},
							 {.queue = "orders",
							  .state = "suspended",
							  .workers = 1,
							  .running = 0,
							  .reason = "role \"hand\" may not log in",
							  .since = 60.0}};
	}

	void press(int key)
	{
		table = current_table(state, snapshot, memory, {Charset::ascii, true});
		top::press(state, key, &snapshot, table, 10);
		table = current_table(state, snapshot, memory, {Charset::ascii, true});
	}

	std::string screen(Size size = {24, 100})
	{
		Scene scene = {.snapshot = &snapshot, .table = &table, .connection = "me@here"};
		std::string text;
		for (const Line &line : frame_of(state, scene, size))
		{
			std::string row;
			for (const Span &span : line)
				row += span.text;
			EXPECT_LE(width_of(row), size.columns) << row;
			text += row + "\n";
		}
		return text;
	}
};

TEST_F(Keys, NothingIsDoneWithoutYes)
{
	press('p');
	ASSERT_TRUE(state.asked);
	EXPECT_EQ(question_of(*state.asked),
			  "Pause queue \"mail\"? 12 ready jobs wait until it is resumed; those in work go on.");
	for (int key : std::initializer_list<int>{'n', '\r', ' ', 'q', kKeyEscape, kKeyDown})
	{
		press(key);
		EXPECT_FALSE(state.asked || state.confirmed || state.wants_end);
		EXPECT_EQ(state.message, "not done");
		press('p');
	}
	press('y');
	ASSERT_TRUE(state.confirmed);
	EXPECT_NE(statement_of(*state.confirmed, snapshot).find("public.pgq_pause_queue('mail')"),
			  std::string::npos);
}

TEST_F(Keys, WhatIsAskedIsWhatIsDoneWhateverComesBetween)
{
	press('p');
	snapshot.queues.erase("mail");
	press('y');
	EXPECT_EQ(state.confirmed->target.queue, "mail");
}

TEST_F(Keys, DeedsOfJobsAndDeadLetters)
{
	press('2');
	press('c');
	EXPECT_EQ(question_of(*state.asked), "Cancel job 17 of queue \"mail\"? It is ended for good, "
										 "and the lease of worker \"w1\" revoked.");
	press('n');
	press('3');
	press('t');
	EXPECT_NE(statement_of(*state.asked, snapshot).find("public.pgq_retry(5)"), std::string::npos);
	press('n');
	press('c');
	EXPECT_EQ(question_of(*state.asked),
			  "Delete dead letter 5 of queue \"mail\"? Its payload is lost.");
	press('n');
	press('d');
	EXPECT_EQ(state.asked->deed, Deed::redrive);
}

TEST_F(Keys, WhatARoleMayNotSaysWhy)
{
	snapshot.functions["pgq_pause_queue"].may_execute = false;
	press('p');
	EXPECT_FALSE(state.asked);
	EXPECT_EQ(state.message, "pause: role operator may not execute pgq_pause_queue");
	EXPECT_NE(screen().find("(p pause)  r resume"), std::string::npos);
	snapshot.queues["mail"].is_closed = true;
	press('r');
	EXPECT_EQ(state.message, "resume: role operator has not the right admin on queue \"mail\"");
	press(kKeyDown);
	press('r');
	EXPECT_EQ(state.asked->target.queue, "orders");
	press('n');
	snapshot.server.is_standby = true;
	press('r');
	EXPECT_EQ(state.message, "resume: the server is a standby");
	snapshot.functions.clear();
	snapshot.server.is_standby = false;
	press('r');
	EXPECT_EQ(state.message, "resume: there is no function pgq_resume_queue");
}

TEST_F(Keys, TheRowStaysChosenWhereverItGoes)
{
	press(kKeyDown);
	EXPECT_EQ(state.here().key, "orders");
	press('i');
	EXPECT_EQ(state.here().key, "orders");
	EXPECT_EQ(state.here().row, 0U);
	snapshot.queues.erase("orders");
	press(' ');
	EXPECT_EQ(state.here().key, "mail");
	EXPECT_TRUE(state.wants_look);
	snapshot.queues.clear();
	press(kKeyEnd);
	EXPECT_EQ(state.here().key, "");
	press('p');
	EXPECT_EQ(state.message, "pause: no row is chosen");
}

TEST_F(Keys, ScreensAndSorting)
{
	press('<');
	EXPECT_EQ(state.here().sort_column, table.columns.size() - 1);
	press('>');
	EXPECT_EQ(state.here().sort_column, 0U);
	press('4');
	EXPECT_EQ(state.screen, Screen::health);
	press('5');
	EXPECT_EQ(state.screen, Screen::handlers);
	press('6');
	EXPECT_EQ(state.screen, Screen::batches);
	press('\t');
	EXPECT_EQ(state.screen, Screen::help);
	press('\t');
	EXPECT_EQ(state.screen, Screen::queues);
	press('z');
	EXPECT_NE(state.message, "");
	press('q');
	EXPECT_TRUE(state.wants_end);
}

TEST_F(Keys, EveryScreenFitsEverySize)
{
	snapshot.notes = {"one", "two", "three", "four\nlines"};
	for (int i = 0; i < 20; i++)
		snapshot.queues["queue " + std::to_string(i)] = {.name = "queue " + std::to_string(i)};
	for (char key : {'1', '2', '3', '4', '5', 'h'})
		for (int lines : {1, 7, 8, 9, 13, 24, 40})
			for (int columns : {1, 10, 39, 40, 80, 200})
			{
				press(key);
				press(kKeyEnd);
				std::string text = screen({lines, columns});
				EXPECT_LE(std::count(text.begin(), text.end(), '\n'), lines);
			}
	press('1');
	press(kKeyEnd);
	EXPECT_NE(screen().find("> queue 9 "), std::string::npos) << screen();
	EXPECT_NE(screen().find("2 more notes"), std::string::npos);
}

TEST_F(Keys, ErrorsOfJobsAreShownAndDoNothing)
{
	press('3');
	std::string text = screen();
	EXPECT_NE(text.find("no\\x1b[2J way"), std::string::npos);
	EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST_F(Keys, HandlersThatCannotRunComeFirst)
{
	press('5');
	std::string text = screen({24, 140});
	size_t suspended = text.find("> orders suspended 1m00s     0/1 ");
	size_t idle = text.find("  mail   idle                1/2    30     29  12s ");
	EXPECT_NE(suspended, std::string::npos) << text;
	EXPECT_NE(idle, std::string::npos) << text;
	EXPECT_LT(suspended, idle);
	EXPECT_NE(text.find("role \"hand\" may not log in\n"), std::string::npos);
	EXPECT_NE(text.find("hand no\\x1b[2J way"), std::string::npos) << text;
	snapshot.handlers->clear();
	press(kKeyHome);
	EXPECT_NE(screen().find("no handlers"), std::string::npos);
	snapshot.handlers.reset();
	press(kKeyHome);
	EXPECT_NE(screen().find("not known"), std::string::npos);
}

/* ---- options ---- */

Options
options_of(std::vector<const char *> words)
{
	words.insert(words.begin(), "pgq-top");
	int n = static_cast<int>(words.size());
	words.push_back(nullptr);
	return parsed_options(n, const_cast<char **>(words.data()));
}

TEST(Options, AsPsqlHasThem)
{
	Options options = options_of({"-h", "there", "-p5433", "mail", "-n", "0.5", "me"});
	EXPECT_EQ(options.error, "");
	EXPECT_EQ(options.address.host, "there");
	EXPECT_EQ(options.address.port, "5433");
	EXPECT_EQ(options.address.database, "mail");
	EXPECT_EQ(options.address.user, "me");
	EXPECT_EQ(options.interval, 0.5);
	options = options_of({"-d", "service=mail", "me", "--json"});
	EXPECT_EQ(options.address.database, "service=mail");
	EXPECT_EQ(options.address.user, "me");
	EXPECT_EQ(options.mode, Options::Mode::json);
	EXPECT_EQ(options_of({"-?"}).mode, Options::Mode::help);
	EXPECT_EQ(options_of({"--help", "--bad"}).mode, Options::Mode::help);
	EXPECT_EQ(options_of({"-V"}).mode, Options::Mode::version);
}

TEST(Options, WhatIsWrongIsSaid)
{
	for (const auto &words : std::vector<std::vector<const char *>>{{"--bad"},
																	{"-x"},
																	{"-h"},
																	{"-n", "0"},
																	{"-n", "2x"},
																	{"-n", "nan"},
																	{"-n", "4000"},
																	{"a", "b", "c"},
																	{"--once", "--json"},
																	{"-w", "-W"},
																	{"--once=1"}})
		EXPECT_NE(options_of(words).error, "") << words[0];
}

} // namespace
