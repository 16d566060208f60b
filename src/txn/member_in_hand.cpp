/* Which batches have members whose leases this transaction has in hand. */
#include "txn/effects.h"
#include "txn/pending.h"

#include <algorithm>

namespace pgq {

/*
 * Return whether one of the newest notes is for the batch, and belongs to the same subtransaction.
 * A note that was promoted from a child may still be undone alone.
 */
static bool
is_noted(const List<MemberInHand> &notes, int64 batch_id)
{
	static constexpr int kMost = 8;
	const Tag tag = current_tag();
	return std::any_of(notes.end() - Min(notes.size, kMost), notes.end(),
					   [&](const MemberInHand &note) {
						   return note.batch_id == batch_id && note.tag.sub == tag.sub &&
								  note.tag.from == tag.from;
					   });
}

void
note_member_in_hand(int64 batch_id)
{
	List<MemberInHand> &notes = pending.effects.members_in_hand;
	if (likely(batch_id == 0) || is_noted(notes, batch_id))
		return;
	notes.reserve(1);
	notes.push({current_tag(), batch_id});
}

bool
has_member_in_hand(int64 batch_id)
{
	const List<MemberInHand> &notes = pending.effects.members_in_hand;
	return std::any_of(notes.begin(), notes.end(),
					   [=](const MemberInHand &note) { return note.batch_id == batch_id; });
}

void
undo_members_in_hand(SubTransactionId mine)
{
	List<MemberInHand> &notes = pending.effects.members_in_hand;
	while (notes.size > 0 && notes.end()[-1].tag.belongs_to(mine))
		notes.size--;
}

} // namespace pgq
