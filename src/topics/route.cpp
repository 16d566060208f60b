#include "topics/route.h"

#include "catalog/topic_rights.h"
#include "catalog/topic_table.h"
#include "core/topic_match.h"

#include <algorithm>

namespace pgq {

namespace {

/* A topic as the key of a hash table. The rest of `bytes` is zero. */
struct TopicKey
{
	uint16 length;
	char bytes[kMaxTopicLength];
};

struct KnownTopic
{
	TopicKey key;
	Route route;
	/* This role may publish to the topic, as long as count_right_changes() returns this number. */
	Oid publisher;
	uint64 right_changes;
};

/* A list of nodes for match_topic(), which grows. */
class Nodes
{
public:
	void clear() { n_ = 0; }
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

static constexpr int kMostTopics = 1000;

/* What this backend remembers: the bindings, in `memory`; the topics, in `memory_of_topics`. */
static constinit MemoryContext memory = nullptr;
static constinit MemoryContext memory_of_topics = nullptr; /* a child of `memory` */
static constinit Binding *bindings = nullptr;
static constinit std::string_view *patterns = nullptr; /* of `bindings`, at the same places */
static constinit int n_bindings = 0;
static constinit HTAB *topics = nullptr;
static constinit bool valid = false;
static constinit bool lasting = false;	   /* each change of the table sends an invalidation */
static constinit Oid watched = InvalidOid; /* the table whose invalidations count */

/* ---- the bindings ---- */

static void
at_change_of_bindings(Datum, Oid relation)
{
	if (!OidIsValid(relation) || relation == watched)
		valid = false;
}

static void
watch_changes()
{
	static constinit bool watches = false;
	watched = find_topic_table(TopicTable::kBinding);
	if (!watches)
		CacheRegisterRelcacheCallback(at_change_of_bindings, 0);
	watches = true;
}

static void
forget_topics()
{
	if (memory_of_topics == nullptr)
		memory_of_topics = AllocSetContextCreate(memory, "pgq_ext routes", ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(memory_of_topics);
	HASHCTL control{};
	control.keysize = sizeof(TopicKey);
	control.entrysize = sizeof(KnownTopic);
	control.hcxt = memory_of_topics;
	topics = hash_create("pgq_ext topics", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static void
read_all_bindings()
{
	if (memory == nullptr)
		memory = AllocSetContextCreate(TopMemoryContext, "pgq_ext topics", ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(memory);
	memory_of_topics = nullptr;
	MemoryContext caller = MemoryContextSwitchTo(memory);
	bindings = read_bindings(&n_bindings, &lasting);
	patterns = static_cast<std::string_view *>(
		palloc_extended((n_bindings + 1) * sizeof(std::string_view), MCXT_ALLOC_HUGE));
	for (int i = 0; i < n_bindings; i++)
		patterns[i] = bindings[i].pattern;
	forget_topics();
	MemoryContextSwitchTo(caller);
}

/*
 * Read the bindings again if they may have changed, or if changes send no invalidation. An invalidation
 * that arrives during the reading makes them invalid again; after ten such readings the newest is used
 * once.
 */
static void
refresh_bindings()
{
	AcceptInvalidationMessages();
	valid &= lasting;
	for (int tries = 0; !valid && tries < 10; tries++)
	{
		watch_changes();
		valid = true;
		PG_TRY();
		{
			read_all_bindings();
		}
		PG_CATCH();
		{
			valid = false;
			PG_RE_THROW();
		}
		PG_END_TRY();
	}
}

/* ---- topics ---- */

static Route
find_route(std::string_view topic)
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
		return a.queue_id != b.queue_id ? a.queue_id < b.queue_id
										: pattern_less(a.pattern, b.pattern);
	});
	auto *kept =
		static_cast<Binding *>(MemoryContextAllocHuge(memory_of_topics, (n + 1) * sizeof(Binding)));
	std::copy(found, found + n, kept);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(scratch);
	return {kept, n};
}

/* Return the entry of the topic. */
static KnownTopic *
know_topic(std::string_view topic)
{
	refresh_bindings();
	TopicKey key{};
	key.length = static_cast<uint16>(topic.size());
	memcpy(key.bytes, topic.data(), topic.size());
	auto *known = static_cast<KnownTopic *>(hash_search(topics, &key, HASH_FIND, nullptr));
	if (known != nullptr)
		return known;
	if (hash_get_num_entries(topics) >= kMostTopics)
		forget_topics();
	Route route = find_route(topic);
	known = static_cast<KnownTopic *>(hash_search(topics, &key, HASH_ENTER, nullptr));
	known->route = route;
	known->publisher = InvalidOid;
	return known;
}

Route
route_topic(std::string_view topic)
{
	return know_topic(topic)->route;
}

/* The check of the right may receive invalidations, so the entry is looked up again after it. */
Route
route_to_publish(std::string_view topic)
{
	uint64 changes = count_right_changes();
	KnownTopic *known = know_topic(topic);
	if (known->publisher == GetUserId() && known->right_changes == changes)
		return known->route;
	if (!may_publish(topic))
		complain_no_publish(topic);
	known = know_topic(topic);
	known->publisher = GetUserId();
	known->right_changes = changes;
	return known->route;
}

} // namespace pgq
