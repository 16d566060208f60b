#include "look.h"

#include "select.h"

namespace top {

Look::Look(Parts parts)
	: questions{&server_question, &relations_question, &functions_question,
				&queue_question,  &status_question,	   &stats_question,
				&health_question, &handler_question,   &batch_question}
{
	if (parts.leases)
		questions.push_back(&lease_question);
	if (parts.dead_letters)
		questions.push_back(&dead_question);
}

std::string
Look::next()
{
	while (asked < questions.size())
	{
		std::string sql = questions[asked++]->sql(sight);
		if (!sql.empty())
			return looking(sql);
	}
	return "";
}

/*
 * Take an answer. If the extension cannot be queried, end the look: read_server() has added a note
 * that says why.
 */
void
Look::take(const Answer &answer)
{
	const Question &question = *questions[asked - 1];
	if (answer.is_good())
		question.read(answer, sight);
	else
	{
		note(sight, std::string(question.subject) + ": " + answer.error());
		sight.snapshot.is_incomplete = true;
	}
	if (!sight.snapshot.server.may_use_schema || sight.snapshot.server.extension.empty())
		asked = questions.size();
}

} // namespace top
