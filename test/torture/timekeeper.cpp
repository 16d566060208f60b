#include "coordinator.h"

namespace torture {

namespace {

/*
 * An actor that works on the jobs of ticks, and sometimes leaves one; that pauses, resumes, changes
 * and drops loose schedules; and that repeats the strict ones unchanged, as an application does at
 * its start.
 */
class Timekeeper : public Actor
{
public:
	Timekeeper(World &world, const std::string &name) : Actor(world, name), verbs(session) {}

private:
	Coordinating verbs;

	void turn() override;
	void do_ticks();
	void say_again();
	void change_one();
};

} // namespace

static const char kSchedule[] =
	"SELECT pgq_schedule($1, $2, $3, payload => '0', missed => $4, options => '{\"priority\": 1}')";

void
prepare_ticks(Session &session)
{
	(void) session.connection.run(
		"SELECT pgq_create_queue($1, backoff_base => '100 ms', backoff_max => '1 s', max_attempts "
		"=> 10000)",
		{kTickQueue});
	Moment before = wall();
	for (const StrictSchedule &schedule : kStrictSchedules)
		(void) session.connection.run(kSchedule,
									  {schedule.name, schedule.cron, kTickQueue, schedule.missed});
	session.world.timetable.begins(before, wall());
}

void
Timekeeper::do_ticks()
{
	std::vector<Ticked> ticks = verbs.claim_ticks(random.between(1, 1000) * kMillisecond);
	if (ticks.empty() || random.chance(5))
		return;
	Transaction tx(session);
	verbs.ack_ticks(ticks, tx);
	finish(tx);
}

void
Timekeeper::say_again()
{
	const StrictSchedule &schedule = random.pick(kStrictSchedules);
	Transaction tx(session);
	(void) tx.run(kSchedule, {schedule.name, schedule.cron, kTickQueue, schedule.missed});
	if (random.chance(20))
		nap(random.between(1, 1500) * kMillisecond);
	finish(tx);
}

void
Timekeeper::change_one()
{
	static const std::vector<std::string> crons = {"every 1 s", "every 2 s", "* * * * * *",
												   "*/2 * * * * *", "every 3 s"};
	static const std::vector<std::string> missed = {"skip", "one", "all"};
	std::string schedule = random.pick(kLooseSchedules);
	temporary = true; /* the schedule may not exist */
	Transaction tx(session);
	tx.mark();
	int n = random.between(1, 100);
	world.timetable.changing(schedule, tx.tx(), n > 40);
	if (n <= 25)
		(void) tx.run("SELECT pgq_pause_schedule($1)", {schedule});
	else if (n <= 40)
		(void) tx.run("SELECT pgq_unschedule($1)", {schedule});
	else if (n <= 70)
		(void) tx.run("SELECT pgq_resume_schedule($1)", {schedule});
	else
		(void) tx.run(kSchedule, {schedule, random.pick(crons), kTickQueue, random.pick(missed)});
	if (random.chance(20))
		nap(random.between(1, 1500) * kMillisecond);
	finish(tx);
}

void
Timekeeper::turn()
{
	int n = random.between(1, 100);
	if (n <= 70)
		do_ticks();
	else if (n <= 78)
		say_again();
	else
		change_one();
}

std::unique_ptr<Actor>
make_timekeeper(World &world)
{
	return std::make_unique<Timekeeper>(world, "timekeeper");
}

} // namespace torture
