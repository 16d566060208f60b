#include "load/row_run.h"

namespace pgq {

template <typename Scan>
static RowStream *
smallest(RowStream *streams, int n)
{
	RowStream *least = nullptr;
	for (RowStream *s = streams; s < streams + n; s++)
		if (s->has_row && (least == nullptr || Scan::Order::less(s->row, least->row)))
			least = s;
	return least;
}

/* Return whether the scan ends at this row, because it has skipped many rows with a group (OrderScan::ungrouped). */
static bool
ends_at(const OrderScan &scan, const Hint &row)
{
	return scan.ungrouped && row.group != 0;
}
static bool
ends_at(const DelayedScan &, const Hint &)
{
	return false;
}

/*
 * Merge the rows of n streams into *run, in the order of the scan: at most `most` rows, and the
 * first row that is left out.
 */
template <typename Scan>
static void
merge_streams(const Scan &scan, int most, RowStream *streams, int n, RowRun *run)
{
	*run = {};
	run->rows = static_cast<Hint *>(palloc(most * sizeof(Hint)));
	while (RowStream *next = smallest<Scan>(streams, n))
	{
		if (run->n == most || ends_at(scan, next->row))
		{
			run->more = true;
			run->left_out = next->row;
			return;
		}
		run->rows[run->n++] = next->row;
		scan.advance(next);
	}
}

/*
 * Merge the rows of n streams into *run, group by group: at most most_groups groups, and at most
 * most_rows rows of each.
 */
static void
merge_groups(const GroupScan &scan, int most_groups, int most_rows, RowStream *streams, int n,
			 GroupRun *run)
{
	auto *rows = static_cast<Hint *>(palloc(most_groups * most_rows * sizeof(Hint)));
	*run = {};
	run->groups = static_cast<RowsOfGroup *>(palloc(most_groups * sizeof(RowsOfGroup)));
	RowsOfGroup *group = nullptr;
	while (RowStream *next = smallest<GroupScan>(streams, n))
	{
		const Hint &row = next->row;
		if (group == nullptr || group->group != row.group)
		{
			run->more = run->n == most_groups;
			if (run->more)
				return;
			group = &run->groups[run->n];
			*group = {row.group, rows + run->n++ * most_rows, 0, Key::highest()};
		}
		if (group->n < most_rows)
		{
			group->rows[group->n++] = row;
			scan.one_each ? scan.skip_group(next) : scan.advance(next);
			continue;
		}
		/* The group has enough rows: each stream skips the rest. group->next becomes the smallest key skipped. */
		group->next = Min(group->next, row.key);
		scan.skip_group(next);
	}
}

/*
 * Open a stream for each segment, call merge() to read the streams, and close the streams. Return false if segments are
 * missing.
 */
template <typename Scan, typename Merge>
static bool
read_segments(SegmentSet &segments, const Scan &scan, int32 queue_id, Merge merge)
{
	const Tables &t = segments.open_all();
	RowStream streams[kMaxSegments];
	int n = 0;
	for (const Segment &segment : t.segments(kJobRing))
	{
		RowStream *stream = &streams[n++];
		open_stream(stream, segments, segment.number, queue_id, scan.index(), scan.keys());
		if (!stream->opened)
			continue;
		scan.begin(stream);
		scan.advance(stream);
	}
	merge(streams, n);
	for (int i = 0; i < n; i++)
		close_stream(&streams[i]);
	return t.has_segments;
}

bool
read_rows(SegmentSet &segments, const OrderScan &scan, int32 queue_id, int most, RowRun *run)
{
	return read_segments(segments, scan, queue_id, [&](RowStream *streams, int n) {
		merge_streams(scan, most, streams, n, run);
	});
}

bool
read_rows(SegmentSet &segments, const DelayedScan &scan, int32 queue_id, int most, RowRun *run)
{
	return read_segments(segments, scan, queue_id, [&](RowStream *streams, int n) {
		merge_streams(scan, most, streams, n, run);
	});
}

bool
read_groups(SegmentSet &segments, const GroupScan &scan, int32 queue_id, int most_groups,
			int most_rows, GroupRun *run)
{
	return read_segments(segments, scan, queue_id, [&](RowStream *streams, int n) {
		merge_groups(scan, most_groups, most_rows, streams, n, run);
	});
}

} // namespace pgq
