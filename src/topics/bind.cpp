#include "topics/bind.h"

#include "catalog/binding_row.h"
#include "catalog/topic_rights.h"
#include "core/topic_match.h"
#include "enqueue/enqueue.h"

namespace pgq {

static std::string_view
bytes_of(const text *value)
{
	return {VARDATA_ANY(value), static_cast<size_t>(VARSIZE_ANY_EXHDR(value))};
}

std::string_view
checked_pattern(const text *text)
{
	std::string_view word;
	std::string_view pattern = bytes_of(text);
	PatternFault fault = check_pattern(pattern, &word);
	if (fault == PatternFault::kTooLong)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("pattern must not be longer than %d bytes",
							   static_cast<int>(kMaxTopicLength)),
						errdetail("The pattern has %d bytes.", static_cast<int>(pattern.size()))));
	if (fault == PatternFault::kWildcardInWord)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("pattern has a wildcard inside the word \"%.*s\"",
						static_cast<int>(word.size()), word.data()),
				 errhint("The wildcards * (one word) and # (any number of words) are words of "
						 "their own, for example \"log.*\" or \"log.#\".")));
	if (fault == PatternFault::kTooManyHashes)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("pattern has more than %d words #", kMaxHashes)));
	return pattern;
}

BindOptions
bind_options(const Jsonb *options)
{
	static constexpr char kWhenFull[] = "when_full";
	BindOptions read{};
	/* Find the only key that options may have. */
	auto *root = const_cast<JsonbContainer *>(&options->root);
	const JsonbValue *value =
		JB_ROOT_IS_OBJECT(options)
			? getKeyJsonValueFromContainer(root, kWhenFull, sizeof(kWhenFull) - 1, nullptr)
			: nullptr;
	if (!JB_ROOT_IS_OBJECT(options) || JsonContainerSize(root) != (value != nullptr ? 1U : 0U))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("options must be an object with no other key than when_full"),
						errhint("For example: '{\"when_full\": \"skip\"}'.")));
	if (value == nullptr)
		return read;
	/* Read its value. */
	std::string_view text;
	if (value->type == jbvString)
		text = {value->val.string.val, static_cast<size_t>(value->val.string.len)};
	read.skip_if_full = text == "skip";
	if (!read.skip_if_full && text != "error")
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("when_full must be \"error\" or \"skip\""),
				 errhint("error: a publish fails if the queue is full. skip: a publish leaves the "
						 "queue out.")));
	return read;
}

void
bind_queue(const text *pattern, const char *queue, const BindOptions &options)
{
	std::string_view bytes = checked_pattern(pattern);
	QueueRef ref = queue_for_enqueue(queue, Permission::kAdminister);
	require_subscribe(bytes);
	write_binding({ref.queue_id, options.skip_if_full, bytes});
}

bool
unbind_queue(const text *pattern, const char *queue)
{
	QueueRef ref = queue_for_enqueue(queue, Permission::kAdminister);
	return delete_binding(ref.queue_id, bytes_of(pattern));
}

} // namespace pgq
