#include "topics/route.h"

#include "catalog/topic_rights.h"
#include "catalog/topic_table.h"
#include "core/topic_match.h"
#include "topics/topic_header.h"

#include <algorithm>

namespace pgq {

namespace {

struct KnownTopic
{
	std::string_view topic; /* key of the hash table */
	Route route; /* as route_to_publish() returns it; header: NULL until a publish needs it */
	/* This role may publish to the topic, as long as count_right_changes() returns this number. */
	Oid publisher;
	uint64 right_changes;
};

/*
 * A list of nodes for match_topic(), which grows. A match of very many patterns can be cancelled.
 */
class Nodes
{
public:
	void clear()
	{
		CHECK_FOR_INTERRUPTS();
		n_ = 0;
	}
	void push_back(const TopicNode &node)
	{
		if (n_ == room_)
		{
			room_ = Max(size_t{64}, 2 * room_);
			nodes_ = static_cast<TopicNode *>(
				nodes_ == nullptr ? palloc_extended(room_ * sizeof(TopicNode), MCXT_ALLOC_HUGE)
								  : repalloc_huge(nodes_, room_ * sizeof(TopicNode)));
		}
		nodes_[n_++] = node;
	}
	TopicNode *begin() { return nodes_; }
	TopicNode *end() { return nodes_ + n_; }
	[[nodiscard]] size_t size() const { return n_; }
	TopicNode &operator[](size_t i) { return nodes_[i]; }
	void resize(size_t size) { n_ = size; }

private:
	TopicNode *nodes_ = nullptr;
	size_t n_ = 0;
	size_t room_ = 0;
};

} // namespace

/* How much a backend remembers: so many topics, and so many bindings in their routes. */
static constexpr int kMostTopics = 1000;
static constexpr int kMostKept = 100000;

/* What this backend remembers: the bindings, in `memory`; the topics, in `memory_of_topics`. */
static constinit MemoryContext memory = nullptr;
static constinit MemoryContext memory_of_topics = nullptr; /* a child of `memory` */
static constinit const Binding *bindings = nullptr;
static constinit const std::string_view *patterns = nullptr; /* of `bindings`, at the same places */
static constinit int n_bindings = 0;
static constinit HTAB *topics = nullptr; /* NULL: no topic is known */
static constinit int n_kept = 0;		 /* number of bindings in the routes of `topics` */

/*
 * The number of invalidations of the bindings so far, and the number before `bindings` were read.
 * The bindings are valid if the numbers are equal.
 */
static constinit uint64 binding_changes = 1;
static constinit uint64 binding_changes_read = 0;
static constinit bool lasting = true;	   /* each change of the table sends an invalidation */
static constinit Oid watched = InvalidOid; /* the table whose invalidations count */

/* ---- the bindings ---- */

static void
at_change_of_bindings(Datum, Oid relation)
{
	if (!OidIsValid(relation) || relation == watched)
		binding_changes++;
}

static void
watch_changes()
{
	static constinit bool watches = false;
	if (!watches)
		CacheRegisterRelcacheCallback(at_change_of_bindings, 0);
	watches = true;
	watched = find_topic_table(TopicTable::kBinding);
}

static const std::string_view *
patterns_of(const Binding *read, int n)
{
	auto *list = static_cast<std::string_view *>(
		palloc_extended((n + 1) * sizeof(std::string_view), MCXT_ALLOC_HUGE));
	for (int i = 0; i < n; i++)
		list[i] = read[i].pattern;
	return list;
}

/*
 * Read all bindings into new memory, and forget the old ones when that has succeeded. An error
 * leaves what was remembered before, which is still invalid.
 */
static void
read_all_bindings()
{
	int n;
	bool may_last;
	uint64 before = binding_changes;
	watch_changes();
	MemoryContext fresh =
		AllocSetContextCreate(CurrentMemoryContext, "pgq_ext topics", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(fresh);
	const Binding *read = read_bindings(&n, &may_last);
	const std::string_view *list = patterns_of(read, n);
	MemoryContextSwitchTo(caller);

	MemoryContextSetParent(fresh, TopMemoryContext);
	if (memory != nullptr)
		MemoryContextDelete(memory);
	memory = fresh;
	memory_of_topics = nullptr;
	topics = nullptr;
	bindings = read;
	patterns = list;
	n_bindings = n;
	lasting = may_last;
	binding_changes_read = before;
}

/*
 * Read the bindings again if they may have changed, or if changes send no invalidation. If an
 * invalidation arrives during the reading, read them once more; after ten readings the newest is
 * used once.
 */
static void
refresh_bindings()
{
	AcceptInvalidationMessages();
	binding_changes += lasting ? 0 : 1;
	for (int tries = 0; binding_changes_read != binding_changes && tries < 10; tries++)
		read_all_bindings();
}

/* ---- routes ---- */

/* Copy the route, with its patterns and its header. */
static Route
copy_route(const Route &route, MemoryContext context)
{
	size_t bytes = 0;
	for (int i = 0; i < route.n; i++)
		bytes += route.bindings[i].pattern.size();
	auto *copy = static_cast<Binding *>(
		MemoryContextAllocHuge(context, (route.n + 1) * sizeof(Binding) + bytes));
	auto *text = reinterpret_cast<char *>(copy + route.n);
	for (int i = 0; i < route.n; i++)
	{
		std::string_view pattern = route.bindings[i].pattern;
		memcpy(text, pattern.data(), pattern.size());
		copy[i] = route.bindings[i];
		copy[i].pattern = {text, pattern.size()};
		text += pattern.size();
	}
	Jsonb *header = nullptr;
	if (route.header != nullptr)
	{
		header = static_cast<Jsonb *>(MemoryContextAlloc(context, VARSIZE(route.header)));
		memcpy(header, route.header, VARSIZE(route.header));
	}
	return {copy, route.n, header};
}

/* Keep the first binding of each queue. */
static int
keep_one_for_each_queue(Binding *found, int n)
{
	Binding *end = std::unique(found, found + n, [](const Binding &a, const Binding &b) {
		return a.queue_id == b.queue_id;
	});
	return static_cast<int>(end - found);
}

/* Match the topic with the bindings. one: only the first binding of each queue. */
static Route
find_route(std::string_view topic, bool one, MemoryContext context)
{
	Nodes nodes;
	Nodes next;
	MemoryContext scratch =
		AllocSetContextCreate(CurrentMemoryContext, "pgq_ext route", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(scratch);
	int n = 0;
	auto *found =
		static_cast<Binding *>(MemoryContextAllocHuge(scratch, (n_bindings + 1) * sizeof(Binding)));
	match_topic(patterns, n_bindings, topic, &nodes, &next,
				[&](int i) { found[n++] = bindings[i]; });
	std::sort(found, found + n, [](const Binding &a, const Binding &b) {
		if (a.queue_id != b.queue_id)
			return a.queue_id < b.queue_id;
		return a.skip_if_full != b.skip_if_full ? b.skip_if_full
												: pattern_less(a.pattern, b.pattern);
	});
	if (one)
		n = keep_one_for_each_queue(found, n);
	Route route = copy_route({found, n, nullptr}, context);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(scratch);
	return route;
}

Route
route_topic(std::string_view topic)
{
	refresh_bindings();
	return find_route(topic, false, CurrentMemoryContext);
}

/* ---- topics that are remembered ---- */

static uint32
hash_of_topic(const void *key, Size)
{
	const auto *topic = static_cast<const std::string_view *>(key);
	return hash_bytes(reinterpret_cast<const unsigned char *>(topic->data()),
					  static_cast<int>(topic->size()));
}

static int
compare_topics(const void *a, const void *b, Size)
{
	return *static_cast<const std::string_view *>(a) == *static_cast<const std::string_view *>(b)
			   ? 0
			   : 1;
}

static void
forget_topics()
{
	topics = nullptr;
	n_kept = 0;
	if (memory_of_topics == nullptr)
		memory_of_topics = AllocSetContextCreate(memory, "pgq_ext routes", ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(memory_of_topics);
	HASHCTL control{};
	control.keysize = sizeof(std::string_view);
	control.entrysize = sizeof(KnownTopic);
	control.hash = hash_of_topic;
	control.match = compare_topics;
	control.hcxt = memory_of_topics;
	topics = hash_create("pgq_ext topics", 64, &control,
						 HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
}

/* Find the route of the topic, and remember it. */
static KnownTopic *
learn_topic(std::string_view topic)
{
	if (topics == nullptr || hash_get_num_entries(topics) >= kMostTopics || n_kept > kMostKept)
		forget_topics();
	Route route = find_route(topic, true, memory_of_topics);
	auto *bytes = static_cast<char *>(MemoryContextAlloc(memory_of_topics, topic.size() + 1));
	memcpy(bytes, topic.data(), topic.size());
	std::string_view key = {bytes, topic.size()};
	auto *known = static_cast<KnownTopic *>(hash_search(topics, &key, HASH_ENTER, nullptr));
	known->route = route;
	known->publisher = InvalidOid;
	n_kept += route.n;
	return known;
}

/* Return the entry of the topic. */
static KnownTopic *
know_topic(std::string_view topic)
{
	refresh_bindings();
	KnownTopic *known = nullptr;
	if (topics != nullptr)
		known = static_cast<KnownTopic *>(hash_search(topics, &topic, HASH_FIND, nullptr));
	return known != nullptr ? known : learn_topic(topic);
}

/* Copy the header of the topic to memory_of_topics. */
static Jsonb *
header_of(std::string_view topic)
{
	Jsonb *object = DatumGetJsonbP(topic_object(topic));
	auto *copy = static_cast<Jsonb *>(MemoryContextAlloc(memory_of_topics, VARSIZE(object)));
	memcpy(copy, object, VARSIZE(object));
	pfree(object);
	return copy;
}

/* The check of the right may receive invalidations, so the entry is looked up again after it. */
Route
route_to_publish(std::string_view topic)
{
	uint64 changes = count_right_changes();
	KnownTopic *known = know_topic(topic);
	if (known->publisher != GetUserId() || known->right_changes != changes)
	{
		if (!may_publish(topic))
			complain_no_publish(topic);
		known = know_topic(topic);
		known->publisher = GetUserId();
		known->right_changes = changes;
	}
	if (known->route.header == nullptr)
		known->route.header = header_of(topic);
	return copy_route(known->route, CurrentMemoryContext);
}

void
free_route(const Route &route)
{
	pfree(const_cast<Binding *>(route.bindings));
	if (route.header != nullptr)
		pfree(route.header);
}

} // namespace pgq
