/* The questions about jobs in work and dead letters. */
#include "select.h"

namespace top {

/* Return a LIMIT of one row more than is shown, to know whether there are more rows. */
static std::string
limit(int most)
{
	return " LIMIT " + std::to_string(most + 1);
}

static std::string
lease_sql(Sight &sight)
{
	return select_from(
		sight, "lease",
		{{"job_id", "job_id", true},
		 {"queue", "queue", true},
		 {"attempt", "attempt"},
		 {"worker", "left(worker, 200)"},
		 {"pid", "pid"},
		 {"claimed_at", "extract(epoch FROM clock_timestamp() - claimed_at)::float8"},
		 {"lease_expires_at", "extract(epoch FROM lease_expires_at - clock_timestamp())::float8"},
		 {"in_transaction", "in_transaction"}},
		"ORDER BY v.job_id" + limit(kMostLeases));
}

static void
read_lease(const Answer &answer, Sight &sight)
{
	std::vector<Lease> &leases = sight.snapshot.leases.emplace();
	sight.snapshot.more_leases = answer.size() > kMostLeases;
	for (int row = 0; row < answer.size() && row < kMostLeases; row++)
		leases.push_back({answer.number(row, "job_id").value_or(0),
						  answer.text_or_nothing(row, "queue"), answer.number(row, "attempt"),
						  answer.number(row, "pid"), answer.text(row, "worker"),
						  answer.real(row, "claimed_at"), answer.real(row, "lease_expires_at"),
						  answer.flag(row, "in_transaction")});
}

const Question lease_question = {"pgq_ext.lease", lease_sql, read_lease};

static std::string
dead_sql(Sight &sight)
{
	return select_from(
		sight, "dead_job",
		{{"job_id", "job_id", true},
		 {"queue_id", "(SELECT q.queue FROM pgq_ext.queue q WHERE q.queue_id = v.queue_id)", true},
		 {"died_at", "extract(epoch FROM clock_timestamp() - died_at)::float8", true},
		 {"attempts", "attempts"},
		 {"reason", "reason"},
		 {"last_error", "left(last_error, 2000)"}},
		"ORDER BY v.died_at DESC" + limit(kMostDeadLetters));
}

static void
read_dead(const Answer &answer, Sight &sight)
{
	std::vector<DeadLetter> &letters = sight.snapshot.dead_letters.emplace();
	sight.snapshot.more_dead_letters = answer.size() > kMostDeadLetters;
	for (int row = 0; row < answer.size() && row < kMostDeadLetters; row++)
		letters.push_back({answer.number(row, "job_id").value_or(0), answer.text(row, "queue_id"),
						   answer.real(row, "died_at"), answer.number(row, "attempts"),
						   answer.text(row, "reason"), answer.text(row, "last_error")});
}

const Question dead_question = {"pgq_ext.dead_job", dead_sql, read_dead};

} // namespace top
