#include "rows/deleted_member.h"

#include "catalog/own_object.h"
#include "catalog/owner_sql.h"
#include "catalog/tables.h"
#include "engine/shared.h"

#include <algorithm>

namespace pgq {

/* ---- the running statements ---- */

namespace {

struct RunningStatement
{
	StatementKind kind;
	SubTransactionId sub; /* the subtransaction in which the statement runs */
};

} // namespace

/*
 * The statements that run now, from the outermost to the innermost: a trigger of the owner may call
 * a function of the extension.
 */
static constexpr int kStatementsMax = 16;
static constinit RunningStatement statements[kStatementsMax] = {};
static constinit int n_statements = 0;

StatementKind
running_statement()
{
	return n_statements > 0 ? statements[n_statements - 1].kind : StatementKind::kNone;
}

void
begin_statement(StatementKind kind)
{
	if (n_statements == kStatementsMax)
		elog(ERROR, "functions of pgq_ext call each other too deeply");
	statements[n_statements++] = {kind, GetCurrentSubTransactionId()};
}

/* ---- the gathered notes ---- */

namespace {

/*
 * A gathered note. sub: the subtransaction to which it belongs. from: the child subtransaction whose
 * commit has promoted the note to `sub`, or invalid: see Tag in txn/pending.h.
 */
struct GatheredNote
{
	SubTransactionId sub;
	SubTransactionId from;
	Note what;
	int64 batch_id;
	int64 n;

	bool belongs_to(SubTransactionId s) const { return sub == s || from == s; }
	bool is_of(int64 batch, Note note) const { return batch_id == batch && what == note; }
};

} // namespace

/* In TopTransactionContext. Notes of the innermost subtransaction are at the end. */
static constinit GatheredNote *gathered = nullptr;
static constinit int n_gathered = 0;
static constinit int capacity = 0;

/* Return the index of the first note of the current subtransaction. */
static int
first_of_mine()
{
	SubTransactionId mine = GetCurrentSubTransactionId();
	int first = n_gathered;
	while (first > 0 && gathered[first - 1].sub == mine)
		first--;
	return first;
}

/*
 * Merge the notes of the current subtransaction that are of one batch and one kind. A note that was
 * promoted from a child subtransaction now belongs to the current one: the child can no longer be
 * aborted by itself.
 */
static void
merge_mine()
{
	GatheredNote *first = gathered + first_of_mine();
	GatheredNote *end = gathered + n_gathered;
	GatheredNote *merged = first;
	std::sort(first, end, [](const GatheredNote &one, const GatheredNote &other) {
		return one.batch_id != other.batch_id ? one.batch_id < other.batch_id
											  : one.what < other.what;
	});
	for (GatheredNote *note = first; note < end; note++)
	{
		if (merged > first && merged[-1].is_of(note->batch_id, note->what))
			merged[-1].n += note->n;
		else
			*merged++ = *note;
		merged[-1].from = InvalidSubTransactionId;
	}
	n_gathered = static_cast<int>(merged - gathered);
}

/* Make room for one more note. Merges first, so that memory grows with the number of batches only. */
static void
reserve_note()
{
	if (n_gathered < capacity)
		return;
	merge_mine();
	if (n_gathered < capacity - capacity / 4)
		return;
	int wanted = Max(64, 2 * capacity);
	Size bytes = mul_size(wanted, sizeof(GatheredNote));
	gathered = static_cast<GatheredNote *>(
		gathered == nullptr ? MemoryContextAllocHuge(TopTransactionContext, bytes)
							: repalloc_huge(gathered, bytes));
	capacity = wanted;
}

/* ---- writing ---- */

/*
 * Run body() with the rights of the owner of the table of notes. This works without the library's
 * shared memory, too. Does nothing if the database has no such table, as with the objects of version
 * 0.1.
 */
template <typename Body>
static void
as_owner_of_notes(Body body)
{
	Oid notes = get_relname_relid("batch_note", get_namespace_oid("pgq_ext", true));
	if (OidIsValid(notes) && is_member(RelationRelationId, notes))
		with_spi_as(owner_of(notes), body);
}

static SpiArgument
array_argument(Oid element, Oid array, Datum *values, int n)
{
	int16 length;
	bool by_value;
	char align;
	get_typlenbyvalalign(element, &length, &by_value, &align);
	return {array, PointerGetDatum(construct_array(values, n, element, length, by_value, align)),
			false};
}

static void
write_notes(const GatheredNote *notes, int n)
{
	as_owner_of_notes([&] {
		auto *batches = static_cast<Datum *>(palloc(n * sizeof(Datum)));
		auto *kinds = static_cast<Datum *>(palloc(n * sizeof(Datum)));
		auto *numbers = static_cast<Datum *>(palloc(n * sizeof(Datum)));
		for (int i = 0; i < n; i++)
		{
			batches[i] = Int64GetDatum(notes[i].batch_id);
			kinds[i] = Int16GetDatum(static_cast<int16>(notes[i].what));
			numbers[i] = Int64GetDatum(notes[i].n);
		}
		const SpiArgument arguments[] = {array_argument(INT8OID, INT8ARRAYOID, batches, n),
										 array_argument(INT2OID, INT2ARRAYOID, kinds, n),
										 array_argument(INT8OID, INT8ARRAYOID, numbers, n)};
		(void) spi_execute("INSERT INTO pgq_ext.batch_note (batch_id, what, n) "
						   "SELECT * FROM ROWS FROM (pg_catalog.unnest($1), "
						   "pg_catalog.unnest($2), pg_catalog.unnest($3)) n",
						   arguments);
	});
}

/* Write the gathered notes of the current subtransaction. */
static void
write_mine()
{
	static constexpr int kAtOnce = 100000;
	if (n_gathered == 0)
		return;
	merge_mine();
	/*
	 * Begin again after each write: the owner may have added code to the table of notes, and that
	 * code may gather further notes.
	 */
	for (int first; (first = Max(first_of_mine(), n_gathered - kAtOnce)) < n_gathered;)
	{
		int n = n_gathered - first;
		auto *notes = static_cast<GatheredNote *>(palloc(n * sizeof(GatheredNote)));
		memcpy(notes, gathered + first, n * sizeof(GatheredNote));
		n_gathered = first;
		write_notes(notes, n);
		pfree(notes);
	}
}

void
end_statement()
{
	n_statements--;
	write_mine();
}

void
gather_note(int64 batch_id, Note what)
{
	SubTransactionId mine = GetCurrentSubTransactionId();
	GatheredNote note = {mine, InvalidSubTransactionId, what, batch_id, 1};
	if (shared == nullptr)
		return write_notes(&note, 1);
	GatheredNote *last = n_gathered > 0 ? gathered + n_gathered - 1 : nullptr;
	if (last != nullptr && last->sub == mine && last->from == InvalidSubTransactionId &&
		last->is_of(batch_id, what))
	{
		last->n++;
		return;
	}
	reserve_note();
	gathered[n_gathered++] = note;
}

void
note_all_batches(Note what)
{
	const SpiArgument arguments[] = {{INT2OID, Int16GetDatum(static_cast<int16>(what)), false}};
	as_owner_of_notes([&] {
		(void) spi_execute("INSERT INTO pgq_ext.batch_note (batch_id, what, n) "
						   "SELECT batch_id, $1, 1 FROM pgq_ext.job_batch WHERE pending",
						   arguments);
	});
}

/* ---- the ends of transactions ---- */

static void
forget_notes()
{
	gathered = nullptr;
	n_gathered = 0;
	capacity = 0;
	n_statements = 0;
}

static void
at_end(XactEvent event, void *)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			write_mine();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
			forget_notes();
			break;
		default:
			break;
	}
}

static void
at_sub_end(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *)
{
	if (event == SUBXACT_EVENT_COMMIT_SUB)
		for (int i = n_gathered; i-- > 0 && gathered[i].sub == mine;)
		{
			gathered[i].sub = parent;
			gathered[i].from = mine;
		}
	if (event != SUBXACT_EVENT_ABORT_SUB)
		return;
	while (n_gathered > 0 && gathered[n_gathered - 1].belongs_to(mine))
		n_gathered--;
	while (n_statements > 0 && statements[n_statements - 1].sub >= mine)
		n_statements--;
}

void
member_notes_init()
{
	RegisterXactCallback(at_end, nullptr);
	RegisterSubXactCallback(at_sub_end, nullptr);
}

} // namespace pgq
