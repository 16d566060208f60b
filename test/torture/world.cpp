#include "world.h"

#include <algorithm>
#include <iostream>

namespace torture {

/* ---- the gate ---- */

void
Gate::join()
{
	std::lock_guard lock(mutex);
	actors++;
}

void
Gate::leave()
{
	std::lock_guard lock(mutex);
	actors--;
	changed.notify_all();
}

bool
Gate::pass()
{
	std::unique_lock lock(mutex);
	waiting++;
	changed.notify_all();
	changed.wait(lock, [&] { return over || !closed; });
	waiting--;
	return !over;
}

bool
Gate::close()
{
	std::unique_lock lock(mutex);
	closed = true;
	return changed.wait_for(lock, std::chrono::microseconds(2 * kPatience),
							[&] { return waiting == actors; });
}

void
Gate::open()
{
	std::lock_guard lock(mutex);
	closed = false;
	changed.notify_all();
}

void
Gate::end()
{
	std::lock_guard lock(mutex);
	over = true;
	changed.notify_all();
}

/* ---- counters ---- */

void
Counters::error(const std::string &state)
{
	std::lock_guard lock(mutex);
	errors[state]++;
}

void
Counters::kill(const std::string &kind)
{
	std::lock_guard lock(mutex);
	kinds[kind]++;
}

void
Counters::rotated(Epoch epoch, int64_t truncations, int64_t moved_rows)
{
	std::lock_guard lock(mutex);
	Rotation &life = lives[epoch];
	life.truncations = std::max(life.truncations, truncations);
	life.moved_rows = std::max(life.moved_rows, moved_rows);
}

/* Return the sum over all server memories. Events after the last look at a memory are missing. */
Counters::Rotation
Counters::rotation() const
{
	Rotation sum;
	for (const auto &[epoch, life] : lives)
	{
		sum.truncations += life.truncations;
		sum.moved_rows += life.moved_rows;
	}
	return sum;
}

bool
Counters::rotation_was_seen()
{
	std::lock_guard lock(mutex);
	Rotation sum = rotation();
	return sum.truncations > 0 && sum.moved_rows > 0;
}

long
Counters::kills()
{
	std::lock_guard lock(mutex);
	long sum = 0;
	for (const auto &[kind, n] : kinds)
		sum += n;
	return sum;
}

long
Counters::kills(const std::string &kind)
{
	std::lock_guard lock(mutex);
	auto found = kinds.find(kind);
	return found == kinds.end() ? 0 : found->second;
}

void
Counters::print(World &world)
{
	const Ledger &ledger = world.ledger;
	const Coordination &coordination = world.coordination;
	std::lock_guard lock(mutex);
	Rotation all = rotation();
	std::cout << "jobs " << enqueued << ", claims " << claims << ", acks " << acks << ", fails "
			  << fails << ", extends " << extends << ", stale " << stale << ", met by key " << met
			  << ", revived " << revived << ", prepared " << prepared << ", late acks "
			  << ledger.late_acks() << "\nbroken connections " << broken << ", restarts "
			  << restarts << ", failovers " << failovers
			  << ", unknown commits resolved: " << resolved_committed << " committed, "
			  << resolved_aborted << " not\ntruncations " << all.truncations << ", rows moved "
			  << all.moved_rows << "; of " << seen_moved << " that were seen before and after, "
			  << seen_moved_due << " were due; moves kept " << kept_moves << "\nlocks "
			  << coordination.locks << ", taken over " << coordination.taken_over << ", runs done "
			  << coordination.runs << ", permits " << coordination.permits << ", ticks "
			  << world.timetable.ticks() << "\njobs of groups " << grouped << ", rules changed "
			  << rule_changes << ", claims refused " << refused << ", turns checked " << turn_checks
			  << "\njobs done by handlers " << world.handled.done << ", by those of arrays "
			  << world.handled.done_by_array << ", follow-up jobs " << world.handled.follow_ups
			  << ", cancelled " << world.handled.cancels << ", calls cancelled "
			  << world.handled.cancels_in_work << ", dead after crashes " << world.handled.crashed
			  << "\nbatches " << world.batched.done << ", members " << world.batched.members_done
			  << ", callbacks " << world.batched.callbacks[0] << " success, "
			  << world.batched.callbacks[1] << " failure, " << world.batched.callbacks[2]
			  << " finish; refused " << world.batched.refusals << ", added in hand "
			  << world.batched.added_in_hand << ", cancelled " << world.batched.cancels
			  << "\ngraphs " << world.graphed.graphs << ", joined " << world.graphed.joined
			  << ", to ended jobs " << world.graphed.late << ", refused " << world.graphed.refusals
			  << ", children handed out " << world.graphed.children[0] << " cancel, "
			  << world.graphed.children[1] << " run, " << world.graphed.children[2]
			  << " hold; cancelled " << world.graphed.cancelled << "\nparents told "
			  << world.graphed.parents_told << ", failed ones " << world.graphed.failed_told
			  << "; callbacks " << world.graphed.callbacks[0] << " success, "
			  << world.graphed.callbacks[1] << " finish; collections " << world.graphed.collections
			  << "\nkills:";
	for (const auto &[kind, n] : kinds)
		std::cout << " " << kind << " " << n << ";";
	std::cout << "\nerrors:";
	for (const auto &[state, n] : errors)
		std::cout << " " << state << " " << n << ";";
	if (Time set = clock_was_set(); set >= kClockNoise)
		std::cout << "\nthe wall clock was set, by " << set / kMillisecond << " ms";
	std::cout << "\naudits " << audits << ", violations " << ledger.violations() << std::endl;
}

} // namespace torture
