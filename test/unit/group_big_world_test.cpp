/*
 * Random walks in larger worlds than those of group_world.h: windows of 1 to 80 places and up to 95 rows. A visit, a step
 * or refill, and a refill of the timer are under way at the same time; the clock goes on with each call; each visit is
 * published alone; transactions commit in another order than that of their job ids.
 *
 * In the environment: GROUP_BIG_WALKS, the number of walks (200); GROUP_BIG_SEED, the first seed; GROUP_BIG_MOST, the
 * number of failures after which the test ends (10).
 */
#include "core/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace {

using namespace pgq;

struct Leased
{
	Hint hint;
	bool claiming;
	int64_t counted;
	Hint missed;
	int missed_count;
	bool missed_regrouped;
	int64_t floor;
	Turns::Given turn; /* Schedule::last_turn() after the pop */
};

struct Shape
{
	GroupRules rules;
	std::vector<GroupRules> others;
	uint32_t window, timer;
	int batch, step_groups, skip;
	int groups, priorities, leases, remembered, rows;
	bool delays, backs, prepares, retries, deletes, undoes, abandons, scheduler, ungrouped;
	int slow;
};

class Big
{
public:
	Big(const Shape &shape, unsigned seed)
		: p(shape),
		  random(seed),
		  nodes(Schedule::nodes(shape.window)),
		  timer_nodes(shape.timer),
		  entries(static_cast<size_t>(shape.leases + shape.remembered + 2))
	{
		c.init(nodes.data(), p.window, timer_nodes.data(), p.timer, 5);
		for (auto &e : entries)
			c.groups().give(&e);
		rules = p.rules;
		c.reset(rules);
		c.doubt_horizon(clock + 20);
		c.groups().remember_at_most(p.remembered);
		c.groups().rates().pass(mono);
	}

	std::string wrong;

	int pick(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }
	int64_t now() { return clock++; }
	void fail(const std::string &what)
	{
		if (wrong.empty())
			wrong = what;
	}
	bool counts(int64_t g) const { return g != 0 && rules.count(); }
	int running(int64_t g) const
	{
		int n = 0;
		for (auto &[id, l] : leased)
			n += l.counted == g;
		return n;
	}
	int started(int64_t g) const
	{
		int n = 0;
		for (auto &[group, at] : starts)
			n += group == g && at > mono - rules.period && at >= rate_since;
		for (auto &[id, l] : leased)
			n += l.claiming && l.counted == g;
		return n;
	}
	int room(int64_t g) const
	{
		if (!counts(g))
			return INT32_MAX;
		int n = rules.most() - running(g);
		return std::max(rules.rate > 0 ? std::min(n, rules.rate - started(g)) : n, 0);
	}
	const Hint *head_of(int64_t g, int64_t from = INT64_MIN) const
	{
		for (auto &[id, row] : rows)
			if (row.group == g && id >= from)
				return &row;
		return nullptr;
	}
	bool eligible(const Hint &row) const
	{
		if (leased.contains(row.key.job_id) || unfiled.contains(row.key.job_id) || !c.due(row) ||
			room(row.group) == 0)
			return false;
		return !rules.in_order(row.group) || (head_of(row.group) == &row && settled(row.group));
	}
	bool comes_before(const Hint &a, const Hint &b) const
	{
		if (!rules.fair || a.key.priority != b.key.priority)
			return a.key < b.key;
		int64_t hand = after(c.turns().hand_of(a.key.priority));
		return a.group == b.group ? a.key < b.key
								  : distance(hand, a.group) < distance(hand, b.group);
	}
	const Hint *best() const
	{
		const Hint *best = nullptr;
		for (auto &[id, row] : rows)
			if (eligible(row) && (best == nullptr || comes_before(row, *best)))
				best = &row;
		return best;
	}
	static bool same(const Hint &a, const Hint &b) { return a.key == b.key && a.group == b.group; }
	void note_missed(int64_t id, const Hint &hint)
	{
		Leased &l = leased[id];
		if (same(hint, l.hint) || (l.missed_count > 0 && same(hint, l.missed)))
			return;
		if (l.missed_count == 0)
			l.missed = hint;
		l.missed_regrouped |= l.missed_count > 0 && hint.group != l.missed.group;
		l.missed_count = l.missed_count == 0 ? 1 : 2;
	}

	/* ---- writers ---- */

	void insert()
	{
		if (static_cast<int>(rows.size()) >= p.rows)
			return;
		if (pick(3) == 0)
			drawn.push_back(next_id++);
		int64_t id = next_id;
		if (!drawn.empty() && pick(2) == 0)
		{
			auto it = drawn.begin() + pick(static_cast<int>(drawn.size()));
			id = *it;
			drawn.erase(it);
		}
		else
			next_id++;
		int64_t g = pick(p.groups + (p.ungrouped ? 1 : 0)) + (p.ungrouped ? 0 : 1);
		if (pick(3) == 0)
			g = 1; /* a hot one */
		int64_t spread = g == 0 ? 0 : g % 3 == 0 ? INT64_MAX - g : g % 3 == 1 ? INT64_MIN + g : g;
		bool delayed = p.delays && pick(3) == 0;
		Hint row{.key = {pick(p.priorities), clock + (delayed ? 1 + pick(60) : 0), id},
				 .place = {},
				 .delayed = delayed,
				 .group = spread};
		rows[id] = row;
		if (pick(2) == 0)
			unfiled.insert(id);
		else if (p.prepares && pick(6) == 0)
		{
			/* COMMIT PREPARED of this row, and of the rows of which no callback has run yet. */
			ChangedRows changed = ChangedRows::none();
			changed.add(row);
			for (; !unfiled.empty() && pick(3) != 0; unfiled.erase(unfiled.begin()))
				changed.add(rows[*unfiled.begin()]);
			c.pull_back(changed);
		}
		else
			c.file(row);
	}
	void file_one()
	{
		if (unfiled.empty())
			return;
		auto it = std::next(unfiled.begin(), pick(static_cast<int>(unfiled.size())));
		int64_t id = *it;
		unfiled.erase(it);
		if (leased.contains(id))
			note_missed(id, rows[id]);
		else
			c.file(rows[id]);
	}
	bool settled(int64_t g) const
	{
		for (int64_t id : unfiled)
			if (rows.at(id).group == g)
				return false;
		return true;
	}
	std::set<int64_t> unfiled;
	std::vector<int64_t> drawn; /* ids of transactions that have not committed yet */
	void remove()
	{
		if (rows.empty())
			return;
		auto it = std::next(rows.begin(), pick(static_cast<int>(rows.size())));
		if (leased.contains(it->first) || unfiled.contains(it->first))
			return;
		Hint row = it->second;
		rows.erase(it);
		c.look_at_group(row.group);
	}
	void change_rules()
	{
		GroupRules old = rules;
		rules = p.others[static_cast<size_t>(pick(static_cast<int>(p.others.size())))];
		if (rules == old)
			return;
		c.change_group_rules(rules, mono);
		rate_since = std::max(rate_since, old.rate > 0 ? mono - old.period : mono + 1);
		for (auto &[id, l] : leased)
			if (rules.count() && l.counted == 0 && l.hint.group != 0)
			{
				need_entry(l.hint.group);
				l.counted = l.hint.group;
				c.took(l.hint, l.claiming);
			}
	}
	void need_entry(int64_t g)
	{
		if (c.groups().find(g) == nullptr && c.groups().spares() == 0)
			fail("no entry");
	}

	/* ---- claims ---- */

	void let_pass()
	{
		if (c.groups().rates().on() || c.groups().rates().timed() > 0)
			c.let_time_pass(mono);
		if (c.groups().rates().next_time() <= mono)
			fail("the scheduler spins");
	}
	/* 1: took; 0: nothing; -1: no lease */
	int pop()
	{
		const Hint *first = best();
		Hint wanted = first != nullptr ? *first : Hint{};
		Hint hint = c.pop();
		auto it = rows.find(hint.key.job_id);
		bool real = it != rows.end() && same(it->second, hint) && eligible(it->second);
		if (real && first != nullptr && rules.rate == 0 && !same(hint, wanted) &&
			comes_before(wanted, hint))
			fail("job " + std::to_string(hint.key.job_id) + " of " + std::to_string(hint.group) +
				 " goes out before " + std::to_string(wanted.key.job_id) + " of " +
				 std::to_string(wanted.group));
		Turns::Given turn = c.last_turn();
		if (!c.admit(hint))
			return c.return_turn(hint), 0;
		bool held = leased.contains(hint.key.job_id);
		if (held || static_cast<int>(leased.size()) >= p.leases)
		{
			held ? c.return_turn(hint) : c.take_back(hint);
			if (held)
				note_missed(hint.key.job_id, hint);
			c.left(hint);
			return held ? 0 : -1;
		}
		if (counts(hint.group) && running(hint.group) >= rules.most())
			fail("limit exceeded");
		if (counts(hint.group) && rules.rate > 0 && started(hint.group) >= rules.rate)
			fail("rate exceeded");
		Leased l{
			hint, true, counts(hint.group) ? hint.group : 0, {}, 0, false, c.floor_of(hint.group),
			turn};
		if (l.counted != 0)
		{
			need_entry(hint.group);
			leased[hint.key.job_id] = l;
			c.took(hint);
		}
		leased[hint.key.job_id] = l;
		return 1;
	}
	void end(int64_t id, bool refile)
	{
		Leased l = leased[id];
		leased.erase(id);
		if (l.counted != 0)
			c.release_group(l.counted, l.claiming);
		c.look_at_group(l.hint.group);
		if (l.missed_count > 0)
			c.look_at_group(l.missed.group);
		if (l.missed_count > 1)
			c.pull_back(l.missed_regrouped ? ChangedRows::all()
										   : ChangedRows::all_of(l.missed.group));
		if (l.missed_count > 0)
			c.file(l.missed);
		if (refile && rows.contains(id))
			c.file(rows[id]);
	}
	/* End the lease of a job that was popped and cannot be handed out. */
	void reject(int64_t id, bool refile)
	{
		(void) c.return_turn_late(leased[id].hint, leased[id].turn);
		end(id, refile);
	}
	bool verify(int64_t id)
	{
		Leased &l = leased[id];
		auto it = rows.find(id);
		bool fits = it != rows.end() && same(it->second, l.hint);
		if (fits && rules.in_order(l.hint.group))
		{
			const Hint *head = head_of(l.hint.group, l.floor);
			if (head != nullptr && head->key.job_id < id)
				return reject(id, !c.due(it->second)), false;
			if (head != head_of(l.hint.group) && l.counted != 0 && settled(l.hint.group) &&
				l.floor > head_of(l.hint.group)->key.job_id && l.floor == c.floor_of(l.hint.group))
				fail("a floor is above a live job");
		}
		if (!fits)
			return reject(id, true), false;
		l.claiming = false;
		if (l.hint.group != 0)
		{
			c.groups().note_start(l.counted != 0 ? l.counted : l.hint.group, l.counted != 0);
			starts.push_back({l.hint.group, mono});
		}
		return true;
	}
	void finish_one()
	{
		if (leased.empty())
			return;
		auto it = std::next(leased.begin(), pick(static_cast<int>(leased.size())));
		int64_t id = it->first;
		if (it->second.claiming)
		{
			if (p.undoes && pick(4) == 0)
				return end(id, true);
			(void) verify(id);
			return;
		}
		if (p.retries && pick(3) == 0)
		{
			unfiled.erase(id);
			rows[id].key.run_at = clock + pick(40);
			rows[id].delayed = true;
			return end(id, true);
		}
		rows.erase(id);
		unfiled.erase(id);
		end(id, false);
	}

	/* ---- readers ---- */

	struct Rows
	{
		std::vector<Hint> rows;
		Key next = Key::highest();
		int64_t head = INT64_MAX;
	};
	struct Seen
	{
		int64_t due, horizon;
	};
	bool sees(const Seen &seen, const Hint &row) const
	{
		return row.key.run_at <= seen.due || (!row.delayed && row.key.run_at <= seen.horizon);
	}
	std::map<Key, Hint> ordered(const Seen &seen, const Key &from) const
	{
		std::map<Key, Hint> order;
		for (auto &[id, row] : rows)
			if (sees(seen, row) && !(row.key < from))
				order[row.key] = row;
		return order;
	}
	Rows of_group(const Seen &seen, int64_t g, const Key &from, int most, bool in_order,
				  int64_t floor) const
	{
		Rows out;
		if (in_order)
		{
			if (const Hint *head = head_of(g, floor))
				out.rows.push_back(*head), out.head = head->key.job_id;
			return out;
		}
		int skipped = 0;
		for (auto &[key, row] : ordered(seen, from))
		{
			if (g == 0 && row.group != 0)
			{
				if (++skipped > p.skip)
				{
					out.next = key;
					return out;
				}
				continue;
			}
			if (row.group != g)
				continue;
			skipped = 0;
			if (static_cast<int>(out.rows.size()) == most)
			{
				out.next = key;
				return out;
			}
			out.rows.push_back(row);
		}
		return out;
	}
	int pick_free(Rows &of, int wanted)
	{
		int n = 0;
		size_t i = 0;
		for (; i < of.rows.size() && n < wanted; i++)
		{
			Hint row = of.rows[i];
			if (!leased.contains(row.key.job_id))
				of.rows[static_cast<size_t>(n++)] = row;
			else
				note_missed(row.key.job_id, row), c.note_met(row);
		}
		if (i < of.rows.size())
			of.next = of.rows[i].key;
		return n;
	}

	/* Visits: one after the other. */
	struct
	{
		bool on = false, read = false;
		Visit of[kVisitsMax];
		int n, i;
		bool fifo;
		Seen seen;
		Rows rows;
	} v;
	bool visit()
	{
		if (!v.on)
		{
			c.fire(now());
			c.clear_way();
			if (!c.wants_visit())
				return false;
			v.n = c.begin_visits(v.of, kVisitsMax);
			v.fifo = c.rules().fifo;
			v.seen = {c.due_line(), c.horizon()};
			v.i = 0;
			v.on = v.n > 0;
			v.read = false;
			if (!v.on)
				c.end_visits();
			return true;
		}
		const Visit &of = v.of[v.i];
		if (!v.read)
		{
			v.rows = of_group(v.seen, of.group, of.from, std::min(of.room, 32) + 2,
							  v.fifo && of.group != 0, of.floor);
			v.read = true;
			return true;
		}
		let_pass();
		int n = pick_free(v.rows, std::min(of.room, 32));
		c.finish_visit(of, v.rows.rows.data(), n, v.rows.next, v.rows.head);
		v.read = false;
		if (++v.i == v.n)
			c.end_visits(), v.on = false;
		return true;
	}

	/* A step, or a refill of the window. */
	struct
	{
		bool on = false, read = false, is_step;
		LapStep lap;
		bool fifo, more;
		Seen seen;
		Key start;
		int64_t highest;
		std::vector<std::pair<int64_t, Rows>> of;
		Rows rows;
		size_t published;
	} w;
	bool window()
	{
		if (!w.on)
		{
			c.fire(now());
			bool step = c.wants_step();
			if (!step && !c.wants_window_refill())
				return false;
			w.on = true;
			w.is_step = step;
			w.read = false;
			w.fifo = c.rules().fifo;
			if (step)
				w.lap = c.begin_step();
			else
				w.start = c.begin_window_refill(now());
			w.seen = {c.due_line(), c.horizon()};
			return true;
		}
		return w.is_step ? go_on_step() : go_on_refill();
	}
	bool go_on_step()
	{
		if (!w.read)
		{
			w.read = true;
			w.of.clear();
			w.more = false;
			std::set<int64_t> groups;
			for (auto &[id, row] : rows)
				if (row.group != 0 && row.group >= w.lap.from && row.group <= w.lap.to &&
					sees(w.seen, row))
					groups.insert(row.group);
			w.highest = Lap::kNone;
			for (int64_t g : groups)
			{
				if (static_cast<int>(w.of.size()) == p.step_groups)
				{
					w.more = true;
					break;
				}
				int most = w.fifo ? 1 : std::min(w.lap.room, 32) + 2;
				Rows r = of_group(w.seen, g, Key::lowest(), most, false, 0);
				if (r.rows[0].key.priority >= w.lap.priority)
					w.highest = w.lap.priority;
				if (w.fifo)
					r = of_group(w.seen, g, Key::lowest(), 1, true, INT64_MIN);
				w.of.push_back({g, r});
			}
			auto all = ordered(w.seen, {w.lap.priority, INT64_MIN, INT64_MIN});
			if (w.highest == Lap::kNone && !all.empty())
				w.highest = all.begin()->first.priority;
			return true;
		}
		let_pass();
		bool valid = c.look_at_step(&w.lap, w.highest);
		for (auto &[g, r] : w.of)
		{
			if (!valid)
				break;
			int wanted = std::min(w.lap.room, c.groups().room(g));
			int n = pick_free(r, std::min(std::max(wanted, 1), 32));
			valid = c.take_group(w.lap, g, r.rows.data(), n, r.next);
		}
		if (valid && !w.more)
			c.take_rest(w.lap);
		c.end_step();
		w.on = false;
		return true;
	}
	bool go_on_refill()
	{
		if (!w.read)
		{
			w.read = true;
			w.rows = {};
			w.published = 0;
			for (auto &[key, row] : ordered(w.seen, w.start))
			{
				if (static_cast<int>(w.rows.rows.size()) == p.batch)
				{
					w.rows.next = key;
					break;
				}
				w.rows.rows.push_back(row);
			}
			return true;
		}
		let_pass();
		for (int i = 0; i < 4 && w.published < w.rows.rows.size(); i++, w.published++)
		{
			const Hint &row = w.rows.rows[w.published];
			if (leased.contains(row.key.job_id))
				note_missed(row.key.job_id, row), c.note_met(row);
			else
				c.merge_window_row(row);
		}
		if (w.published == w.rows.rows.size())
			c.finish_window_refill(w.rows.next), w.on = false;
		return true;
	}

	struct
	{
		bool on = false, read = false;
		TimerKey start, next;
		std::vector<Hint> rows;
		size_t published;
	} t;
	bool timer()
	{
		if (!t.on)
		{
			c.fire(now());
			if (!c.wants_timer_refill())
				return false;
			t.start = c.begin_timer_refill(now());
			t.on = true;
			t.read = false;
			return true;
		}
		if (!t.read)
		{
			t.read = true;
			t.rows.clear();
			t.published = 0;
			t.next = TimerKey::highest();
			std::map<std::pair<int64_t, int64_t>, Hint> order;
			for (auto &[id, row] : rows)
				if (row.delayed && !(row.timer_key() < t.start))
					order[{row.key.run_at, id}] = row;
			for (auto &[key, row] : order)
			{
				if (static_cast<int>(t.rows.size()) ==
					std::min<int>(p.batch, static_cast<int>(p.timer)))
				{
					t.next = row.timer_key();
					break;
				}
				t.rows.push_back(row);
			}
			return true;
		}
		for (int i = 0; i < 4 && t.published < t.rows.size(); i++, t.published++)
		{
			const Hint &row = t.rows[t.published];
			if (leased.contains(row.key.job_id))
				note_missed(row.key.job_id, row), c.note_met(row);
			else
				c.merge_timer_row(row);
		}
		if (t.published == t.rows.size())
			c.finish_timer_refill(t.next), t.on = false;
		return true;
	}
	void abandon()
	{
		switch (pick(3))
		{
			case 0:
				if (v.on)
					c.end_visits(), v.on = false;
				break;
			case 1:
				if (w.on)
					w.is_step ? c.end_step() : c.abandon_window_refill(), w.on = false;
				break;
			default:
				if (t.on)
					c.abandon_timer_refill(), t.on = false;
		}
	}

	/* ---- the walk ---- */

	void act()
	{
		switch (pick(16))
		{
			case 0:
			case 1:
			case 2:
				return insert();
			case 3:
			case 4:
			case 5:
				let_pass();
				c.fire(now());
				c.clear_way();
				if (c.poppable())
					(void) pop();
				return;
			case 6:
			case 7:
				return pick(2) ? file_one() : finish_one();
			case 8:
			case 9:
				if (pick(p.slow) == 0)
					(void) visit();
				return;
			case 10:
			case 11:
				if (pick(p.slow) == 0)
					(void) window();
				return;
			case 12:
				if (p.scheduler)
					(void) timer();
				return;
			case 13:
				if (p.deletes && pick(3) == 0)
					remove();
				mono += pick(5);
				let_pass();
				return;
			case 14:
				if (p.abandons && pick(3) == 0)
					abandon();
				clock += pick(10);
				return;
			default:
				if (p.backs && pick(10) == 0)
				{
					clock -= std::min<int64_t>(pick(30), clock - 1);
					c.fire(now());
				}
				if (!p.others.empty() && pick(12) == 0)
					change_rules();
		}
	}
	void check()
	{
		for (auto &[id, row] : rows)
			if (!leased.contains(id) && !unfiled.contains(id) && !c.covers(row) &&
				(!rules.in_order(row.group) || (head_of(row.group) == &row && settled(row.group))))
				fail("job " + std::to_string(id) + " is forgotten");
		std::map<int64_t, int> running;
		for (auto &[id, l] : leased)
			if (l.counted != 0)
				running[l.counted]++;
		for (auto &[g, n] : running)
			if (const Group *e = c.groups().find(g); e == nullptr || e->running != n)
				fail("an entry counts wrongly");
		if (c.groups().remembered() > p.remembered)
			fail("too many remembered");
	}
	int expected(int most)
	{
		std::map<int64_t, int> ready;
		for (auto &[id, row] : rows)
			if (eligible(row))
				ready[row.group]++;
		int n = 0;
		for (auto &[g, k] : ready)
			n += std::min(k, room(g));
		return std::min({n, most, p.leases - static_cast<int>(leased.size())});
	}
	int claim(int most)
	{
		int n = 0;
		bool refilled = false;
		for (int rounds = 0; n < most && wrong.empty(); rounds++)
		{
			if (rounds > 1500)
				fail("a claim goes round in circles");
			let_pass();
			refilled ? c.notice_step_back(now()) : c.fire(now());
			refilled = false;
			c.clear_way();
			if (c.poppable())
			{
				int popped = pop();
				if (popped < 0)
					return n;
				std::vector<int64_t> ids;
				for (auto &[id, l] : leased)
					if (l.claiming)
						ids.push_back(id);
				for (int64_t id : ids)
					n += verify(id);
				if (popped > 0)
					rounds = 0;
			}
			else if (c.hides_due() && c.wants_timer_refill())
				refilled = whole([&] { return timer(); }, t.on),
				refilled |= whole([&] { return window(); }, w.on);
			else if (c.wants_visit())
				(void) whole([&] { return visit(); }, v.on);
			else if (c.wants_step())
				(void) whole([&] { return window(); }, w.on);
			else if (c.wants_window_refill())
				refilled = whole([&] { return timer(); }, t.on),
				refilled |= whole([&] { return window(); }, w.on);
			else if (c.exhausted())
			{
				c.note_exhausted();
				return n;
			}
			else
				fail("a claim has to wait, but it is alone");
		}
		return n;
	}
	template <typename F> bool whole(F f, const bool &on)
	{
		bool any = f();
		while (on && f())
			;
		return any;
	}
	void drain()
	{
		while (v.on)
			visit();
		while (w.on)
			window();
		while (t.on)
			timer();
		while (!unfiled.empty())
			file_one();
		std::vector<int64_t> ids;
		for (auto &[id, l] : leased)
			if (l.claiming)
				ids.push_back(id);
		for (int64_t id : ids)
			(void) verify(id);
		for (int k = 0; k < 3000 && wrong.empty(); k++)
		{
			let_pass();
			c.fire(now());
			int want = 1 + pick(20);
			int exact = expected(want);
			int n = claim(want);
			if (n < exact && rules.rate == 0)
				fail("a claim of " + std::to_string(want) + " gets " + std::to_string(n) + " of " +
					 std::to_string(exact));
			check();
			int ended = 0;
			while (!leased.empty() && ended < 3 && pick(4) != 0)
			{
				int64_t id =
					std::next(leased.begin(), pick(static_cast<int>(leased.size())))->first;
				rows.erase(id);
				unfiled.erase(id);
				end(id, false);
				ended++;
			}
			if (rows.empty())
				return;
			if (n == 0 && ended == 0)
				clock += 3, mono += rules.rate > 0 ? 4 : 1;
		}
		fail("not drained");
	}

	Shape p;
	std::mt19937 random;
	std::vector<Schedule::Node> nodes;
	std::vector<Schedule::Timer::Node> timer_nodes;
	std::vector<Group> entries;
	Schedule c;
	GroupRules rules;
	std::map<int64_t, Hint> rows;
	std::map<int64_t, Leased> leased;
	std::vector<std::pair<int64_t, int64_t>> starts;
	int64_t rate_since = 0;
	int64_t next_id = 1, clock = 100, mono = 0;
};

Shape
shape_of(unsigned seed)
{
	std::mt19937 random(seed);
	auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
	static const GroupRules all[] = {
		{.limit = 0, .fifo = false, .fair = true},
		{.limit = 1, .fifo = false, .fair = true},
		{.limit = 2, .fifo = false, .fair = true},
		{.limit = 0, .fifo = true, .fair = true},
		{.limit = 0, .fifo = true},
		{.limit = 1},
		{.limit = 2},
		{.limit = 0},
		{.limit = 0, .fifo = false, .fair = false, .rate = 2, .period = 16},
		{.limit = 0, .fifo = true, .fair = false, .rate = 1, .period = 32},
		{.limit = 1, .fifo = false, .fair = false, .rate = 2, .period = 16}};
	Shape p{};
	p.rules = all[pick(11)];
	if (pick(3) == 0)
		for (int n = 1 + pick(3); n > 0; n--)
			p.others.push_back(all[pick(11)]);
	static const uint32_t sizes[] = {1, 2, 3, 5, 8, 12, 20, 40, 80};
	p.window = sizes[pick(9)];
	p.timer = sizes[pick(5)];
	p.batch = std::min<int>(1 + pick(20), static_cast<int>(p.window));
	p.step_groups = 1 + pick(16);
	p.skip = 1 + pick(6);
	p.groups = 1 + pick(pick(2) ? 60 : 6);
	p.priorities = 1 + pick(5);
	p.leases = 1 + pick(24);
	p.remembered = pick(4);
	p.rows = 5 + pick(90);
	p.ungrouped = pick(2);
	p.delays = pick(2);
	p.backs = p.delays && pick(3) == 0;
	p.prepares = pick(3) == 0;
	p.retries = pick(2);
	p.deletes = pick(2);
	p.undoes = pick(2);
	p.abandons = pick(2);
	p.scheduler = pick(4) != 0;
	p.slow = 1 + pick(6);
	return p;
}

TEST(GroupBigWorld, AtRandom)
{
	auto env = [](const char *name, long otherwise) {
		return getenv(name) ? atol(getenv(name)) : otherwise;
	};
	long first = env("GROUP_BIG_SEED", 1);
	long seeds = env("GROUP_BIG_WALKS", 200);
	long failures = 0;
	for (long seed = first; seed < first + seeds && failures < env("GROUP_BIG_MOST", 10); seed++)
	{
		Shape p = shape_of(static_cast<unsigned>(seed));
		auto world = std::make_unique<Big>(p, static_cast<unsigned>(seed * 7 + 1));
		int acts = 0;
		for (; acts < 600 && world->wrong.empty(); acts++)
		{
			world->act();
			world->check();
		}
		if (world->wrong.empty())
			world->drain();
		if (world->wrong.empty())
			continue;
		failures++;
		ADD_FAILURE() << "seed " << seed << " act " << acts << " window " << p.window << " timer "
					  << p.timer << " rules " << world->rules.limit << world->rules.fifo
					  << world->rules.fair << world->rules.rate << " (first " << p.rules.limit
					  << p.rules.fifo << p.rules.fair << p.rules.rate << ", live "
					  << p.others.size() << ") leases " << p.leases << " groups " << p.groups
					  << " back " << p.backs << " prepares " << p.prepares << " scheduler "
					  << p.scheduler << ": " << world->wrong;
	}
}

} // namespace
