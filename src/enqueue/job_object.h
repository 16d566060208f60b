/* Decoding a JSON object whose keys are the names in the table of job_spec.h. */
#pragma once

#include "enqueue/job_spec.h"

#include <string_view>

namespace pgq {

/* Where the object comes from: which keys it may have, and how messages name it. */
struct Origin
{
	enum Kind : uint8
	{
		kEnqueued,	/* an element of the array of pgq_enqueue_many */
		kPublished, /* an element of the array of pgq_publish_many */
		kCallback,	/* a callback of a batch, without its queue and payload */
		kOptions,	/* the options of a schedule */
	} kind;
	uint32 element; /* from 0; messages count from 1 */

	[[nodiscard]] bool is_element() const { return kind == kEnqueued || kind == kPublished; }
};

/* The keys that only an element of pgq_publish_many has. */
inline constexpr std::string_view kTopic = "topic";
inline constexpr std::string_view kMustRoute = "must_route";

/* Decode the object. Raises 22023, 0A000, 54000. */
JobSpec read_object(JsonbContainer *object, const Origin &origin);

/*
 * Decode one key of the object. A JSON null means the default, as NULL does in SQL; only a required
 * attribute (payload) can have null as its value.
 */
void read_key(JobSpec *spec, const JsonbValue &key, JsonbValue *value, const Origin &origin);

/* Raise 22023: the object has a bad key or value, or is none. */
[[noreturn]] void bad_job(const Origin &origin, const char *what);

/* Raise 22004: the element does not have a key that it must have. */
[[noreturn]] void complain_without(const Origin &origin, const char *key);

} // namespace pgq
