#include "topics/target.h"

#include "engine/copies.h"

namespace pgq {

static constexpr int kUnroutable = MAKE_SQLSTATE('P', 'Q', '0', '0', '3');

Targets
copy_targets(const Route &route, const Targets &like)
{
	auto *copies =
		static_cast<Binding *>(palloc_extended((route.n + 1) * sizeof(Binding), MCXT_ALLOC_HUGE));
	int n = 0;
	for (int i = 0; i < route.n; i++)
	{
		const Binding &binding = route.bindings[i];
		if (n == 0 || copies[n - 1].queue_id != binding.queue_id)
			copies[n++] = binding;
		else if (copies[n - 1].skip_if_full && !binding.skip_if_full)
			copies[n - 1] = binding;
	}
	for (int i = 0; i < n; i++)
	{
		std::string_view pattern = copies[i].pattern;
		bool known = i < like.n && like.bindings[i].pattern == pattern;
		copies[i].pattern =
			known ? like.bindings[i].pattern
				  : std::string_view(pnstrdup(pattern.data(), pattern.size()), pattern.size());
	}
	return {copies, n};
}

text *
name_of_target(const QueueRef &ref)
{
	char name[kQueueNameMax + 1] = "";
	(void) copy_name(ref, name);
	return cstring_to_text(name);
}

void
say_pattern(void *binding)
{
	std::string_view pattern = static_cast<Binding *>(binding)->pattern;
	errcontext("publish by the binding of pattern \"%.*s\"", static_cast<int>(pattern.size()),
			   pattern.data());
}

void
complain_unroutable(std::string_view topic, bool skipped)
{
	auto length = static_cast<int>(topic.size());
	ereport(
		ERROR,
		(errcode(kUnroutable),
		 errmsg("no queue gets jobs of the topic \"%.*s\"", length, topic.data()),
		 skipped
			 ? errdetail("The queues that are bound to the topic are full, and their bindings say "
						 "that a full queue is left out.")
			 : 0,
		 skipped
			 ? errhint("Try again when jobs of the queues have ended. Or pass must_route => false.")
			 : errhint("Bind a queue to the topic: SELECT pgq_bind('%.*s', 'queue'). Or pass "
					   "must_route => false.",
					   length, topic.data())));
}

} // namespace pgq
