#include "engine/starts_copy.h"

#include "engine/group.h"
#include "engine/hold.h"

namespace pgq {

/*
 * Upper bound of the entries for one rate: one for each part, one for the hand-outs of claims in
 * progress, and the first entry (SavedStarts::n).
 */
static constexpr int kMostOfOne = static_cast<int>(Rate::kParts) + 3;

int
room_for_starts(const QueueRef &ref)
{
	int room = 0;
	(void) change_queue(ref, [&](QueueHold &hold) {
		const QueueOptions &options = hold->options;
		room += options.rate_limit > 0 ? kMostOfOne : 0;
		if (options.group_rate_limit > 0)
			hold.schedule().groups().for_each([&](Group *) { room += kMostOfOne; });
		room += options.group_rate_limit > 0 ? kMostOfOne : 0;
	});
	return room;
}

/* Collects the entries of a queue in an array. */
class StartsCopier
{
public:
	StartsCopier(SavedStarts *copies, int most, const Queue *queue, int64 monotonic)
		: copies_(copies), most_(most), queue_(queue), monotonic_(monotonic)
	{}

	/*
	 * Return the number of entries; 0 if the array was too small, since a part of the starts must
	 * not be restored alone.
	 */
	int n() const { return n_ <= most_ ? n_ : 0; }

	void begin_group(int64 group)
	{
		of_ = StartsOf::kGroup;
		group_ = group;
	}
	void begin(StartsOf of, int64 period)
	{
		of_ = of;
		bool unknown = queue_->unknown_until > monotonic_;
		add(unknown ? SavedStarts::kUnknown : SavedStarts::kNoneBefore, monotonic_ - 2 * period);
	}
	void add(int64 starts, int64 when)
	{
		if (n_ < most_)
			copies_[n_] = {.queue_id = queue_->queue_id,
						   .of = of_,
						   .group = group_,
						   .age = Max(monotonic_ - when, 0),
						   .n = static_cast<int32>(Min(starts, INT32_MAX))};
		n_++;
	}
	void add_claiming(int64 starts)
	{
		if (starts > 0)
			add(starts, monotonic_);
	}

private:
	SavedStarts *copies_;
	int most_;
	const Queue *queue_;
	int64 monotonic_;
	int n_ = 0;
	StartsOf of_ = StartsOf::kQueue;
	int64 group_ = 0;
};

static void
copy_starts_of_groups(StartsCopier &copier, Queue *queue, int64 monotonic)
{
	Groups &groups = queue->schedule.groups();
	auto add = [&](int64 n, int64 when) { copier.add(n, when); };
	groups.rates().pass(monotonic);
	copier.begin(StartsOf::kOthers, queue->options.rate_period);
	groups.rates().for_each_other_part(add);
	/* jobs that claims have not handed out yet; some may be jobs of groups without an entry */
	copier.add_claiming(queue->claiming);
	groups.for_each([&](Group *group) {
		copier.begin_group(group->id);
		groups.rates().starts_of(group).for_each_part(monotonic, add);
		copier.add_claiming(group->rate.claiming);
	});
}

int
copy_starts(const QueueRef &ref, SavedStarts *copies, int most, int64 monotonic)
{
	int copied = 0;
	(void) change_queue(ref, [&](QueueHold &hold) {
		Queue *queue = hold.queue();
		const QueueOptions &options = queue->options;
		StartsCopier copier(copies, most, queue, monotonic);
		if (options.rate_limit > 0)
		{
			copier.begin(StartsOf::kQueue, options.rate_period);
			queue->rate.for_each_part(monotonic, [&](int64 n, int64 when) { copier.add(n, when); });
			copier.add_claiming(queue->claiming);
		}
		if (options.group_rate_limit > 0)
			copy_starts_of_groups(copier, queue, monotonic);
		copied = copier.n();
	});
	return copied;
}

static void
restore(Queue *queue, const SavedStarts &saved, int64 when)
{
	/* Ignore the entry if the queue has no such limit any more. */
	const QueueOptions &options = queue->options;
	Groups &groups = queue->schedule.groups();
	bool counts = saved.of == StartsOf::kQueue ? options.rate_limit > 0 : groups.rates().on();
	if (!counts)
		return;
	if (saved.n == SavedStarts::kNoneBefore)
		queue->unknown_until = 0;
	/*
	 * The first entry of a rate has n = 0 and replaces the starts that were assumed. Later entries
	 * are added.
	 */
	int32 n = Max(saved.n, 0);
	switch (saved.of)
	{
		case StartsOf::kQueue:
			if (n == 0)
				queue->rate.restart(options.rate_period, when);
			queue->rate.note(n, when);
			break;
		case StartsOf::kOthers:
			if (n == 0)
				groups.rates().assume_none(options.rate_period, when);
			groups.rates().add_others(n, when);
			break;
		case StartsOf::kGroup:
			reserve_memory(queue);
			if (groups.remembered() < groups.most_remembered())
				bring_group(queue, saved.group);
			groups.add_starts(saved.group, n, when);
			break;
	}
}

void
restore_starts(const QueueRef &ref, const SavedStarts &saved, int64 monotonic)
{
	(void) change_queue(
		ref, [&](QueueHold &hold) { restore(hold.queue(), saved, monotonic - saved.age); });
}

} // namespace pgq
