#include "action.h"

namespace top {

namespace {

std::string
outcome_of_retry(const Action &action, const std::string &value)
{
	if (value == "t")
		return job_of(action) + " of " + queue_of(action) + " is a job again";
	return job_of(action) + " is not retried: it is gone, in work, or has expired";
}

std::string
outcome_of_cancel(const Action &action, const std::string &value)
{
	if (value.empty())
		return "there is no " + job_of(action) + " any more";
	return job_of(action) + " is ended: it was " + value;
}

} // namespace

std::string
outcome_of(const Action &action, const Answer &answer)
{
	if (!answer.is_good())
		return std::string(name_of(action.deed).verb) + ": " + answer.error();
	std::string value = answer.size() > 0 ? answer.text_or_nothing(0, "result") : "";
	switch (action.deed)
	{
		case Deed::pause:
			return queue_of(action) + " is paused";
		case Deed::resume:
			return queue_of(action) + " is resumed";
		case Deed::redrive:
			return value + " dead letters of " + queue_of(action) + " are jobs again";
		case Deed::retry:
			return outcome_of_retry(action, value);
		case Deed::cancel:
			return outcome_of_cancel(action, value);
	}
	return "";
}

} // namespace top
