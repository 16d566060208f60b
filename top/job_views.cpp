/* The questions about jobs in work, dead letters and batches. */
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

/*
 * Return the query about batches: those that have not finished, that have finished in the last hour,
 * or of which a callback could not be enqueued. It reads no numbers of members, since that takes as
 * long as reading the members.
 */
static std::string
batch_sql(Sight &sight)
{
	if (!sight.relations.contains("batch"))
	{
		sight.snapshot.batches.emplace();
		return "";
	}
	return select_from(
		sight, "batch",
		{{"batch", "batch", true},
		 {"state", "state", true},
		 {"maker", "maker"},
		 {"created_at", "extract(epoch FROM clock_timestamp() - created_at)::float8"},
		 {"closed_at", "extract(epoch FROM clock_timestamp() - closed_at)::float8"},
		 {"finished_at", "extract(epoch FROM clock_timestamp() - finished_at)::float8", true},
		 {"failed_at", "extract(epoch FROM clock_timestamp() - failed_at)::float8"},
		 {"next_try_at", "extract(epoch FROM next_try_at - clock_timestamp())::float8"},
		 {"last_error", "left(last_error, 2000)", true}},
		"WHERE v.state <> 'finished' OR v.finished_at > clock_timestamp() - interval '1 hour'"
		" OR v.last_error IS NOT NULL ORDER BY v.batch DESC" +
			limit(kMostBatches));
}

static void
read_batch(const Answer &answer, Sight &sight)
{
	std::vector<Batch> &batches = sight.snapshot.batches.emplace();
	sight.snapshot.more_batches = answer.size() > kMostBatches;
	for (int row = 0; row < answer.size() && row < kMostBatches; row++)
		batches.push_back({.id = answer.number(row, "batch").value_or(0),
						   .state = answer.text(row, "state"),
						   .maker = answer.text(row, "maker"),
						   .created = answer.real(row, "created_at"),
						   .closed = answer.real(row, "closed_at"),
						   .finished = answer.real(row, "finished_at"),
						   .failed = answer.real(row, "failed_at"),
						   .error = answer.text(row, "last_error"),
						   .next_try = answer.real(row, "next_try_at")});
}

const Question batch_question = {"pgq_ext.batch", batch_sql, read_batch};

} // namespace top
