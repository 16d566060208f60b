#include "enqueue/job_graph.h"

#include "rows/job_ids.h"

#include <algorithm>

namespace pgq {

static int
compare_text(const text *a, const text *b)
{
	Size length_a = VARSIZE_ANY_EXHDR(a);
	Size length_b = VARSIZE_ANY_EXHDR(b);
	int order = memcmp(VARDATA_ANY(a), VARDATA_ANY(b), Min(length_a, length_b));
	if (order != 0)
		return order;
	return length_a < length_b ? -1 : static_cast<int>(length_a > length_b);
}

[[noreturn]] static void
refuse_names(uint32 element, const char *what, const char *hint)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("element %u of jobs %s", element + 1, what), errhint("%s", hint)));
}

void
JobGraph::read_names(Jsonb *jobs)
{
	n_ = JsonContainerSize(&jobs->root);
	elements_ = static_cast<Element *>(
		MemoryContextAllocHuge(CurrentMemoryContext, (n_ + 1) * sizeof(Element)));
	for (uint32 i = 0; i < n_; i++)
	{
		JobSpec spec = names_of_array(jobs, i);
		const ParentList *parents = parents_of(spec);
		elements_[i] = {ref_of(spec), unique_key_of(spec),	   parents,
						nullptr,	  on_parent_failure(spec), false};
		n_refs_ += elements_[i].ref != nullptr;
		n_keys_ += elements_[i].key != nullptr;
		n_parents_ += parents != nullptr ? parents->n : 0;
		/* Many parents take milliseconds. */
		if (parents != nullptr || i % 1024 == 0)
			CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Return the n elements that have a name, in the order of their names, and of the array. name(element)
 * is NULL if the element has none.
 */
template <typename Name>
uint32 *
JobGraph::sorted_by(Name name, uint32 n) const
{
	auto *sorted = static_cast<uint32 *>(
		MemoryContextAllocHuge(CurrentMemoryContext, (n + 1) * sizeof(uint32)));
	uint32 *end = sorted;
	for (uint32 i = 0; i < n_; i++)
		if (name(i) != nullptr)
			*end++ = i;
	std::sort(sorted, end, [name](uint32 a, uint32 b) {
		int order = compare_text(name(a), name(b));
		return order != 0 ? order < 0 : a < b;
	});
	return sorted;
}

template <typename Name>
uint32
JobGraph::first_with(const uint32 *sorted, uint32 n, Name name, const text *wanted)
{
	const uint32 *end = sorted + n;
	const uint32 *found =
		std::lower_bound(sorted, end, wanted, [name](uint32 element, const text *w) {
			return compare_text(name(element), w) < 0;
		});
	return found != end && compare_text(name(*found), wanted) == 0 ? *found : kNoElement;
}

void
JobGraph::sort_names()
{
	refs_ = sorted_by([this](uint32 i) { return elements_[i].ref; }, n_refs_);
	keys_ = sorted_by([this](uint32 i) { return elements_[i].key; }, n_keys_);
	for (uint32 i = 1; i < n_refs_; i++)
		if (compare_text(elements_[refs_[i - 1]].ref, elements_[refs_[i]].ref) == 0)
			refuse_names(refs_[i],
						 psprintf("has the ref \"%s\" of element %u",
								  text_to_cstring(elements_[refs_[i]].ref), refs_[i - 1] + 1),
						 "Each ref of a call must be different.");
}

/* Return the element that is the job of this ref: the first one with the same unique key. */
uint32
JobGraph::find_ref(const text *ref) const
{
	uint32 named = first_with(
		refs_, n_refs_, [this](uint32 i) { return elements_[i].ref; }, ref);
	if (named == kNoElement || elements_[named].key == nullptr)
		return named;
	return first_with(
		keys_, n_keys_, [this](uint32 i) { return elements_[i].key; }, elements_[named].key);
}

/* Find the elements whose names are listed in `after`. */
void
JobGraph::resolve()
{
	for (uint32 i = 0; i < n_; i++)
	{
		const ParentList *parents = elements_[i].parents;
		if (parents == nullptr)
			continue;
		elements_[i].inside = static_cast<uint32 *>(palloc(parents->n * sizeof(uint32)));
		for (int p = 0; p < parents->n; p++)
		{
			const text *ref = parents->names[p].ref;
			uint32 parent = ref != nullptr ? find_ref(ref) : kNoElement;
			elements_[i].inside[p] = parent;
			if (ref != nullptr && parent == kNoElement)
				refuse_names(i,
							 psprintf("has the unknown ref \"%s\" in after", text_to_cstring(ref)),
							 "A ref is the name that another element of the same call has as its "
							 "key ref. Pass the id of another job as a number.");
			if (ref != nullptr)
				elements_[parent].is_parent = true;
		}
	}
}

/*
 * Return the next parent of the element of this step, out of the parents that are not placed yet;
 * kNoElement: all are placed. Raises 22023 if the parent is on the stack.
 */
uint32
JobGraph::next_parent(Step *step, const uint8 *state) const
{
	const Element &at = elements_[step->element];
	while (at.parents != nullptr && step->next < at.parents->n)
	{
		uint32 parent = at.inside[step->next++];
		if (parent == kNoElement || state[parent] == kPlaced)
			continue;
		if (state[parent] == kOnStack)
			refuse_names(step->element,
						 psprintf("is in a circle: it waits for \"%s\", which waits for it",
								  text_to_cstring(at.parents->names[step->next - 1].ref)),
						 "A job cannot wait for a job that waits for it. Elements with the same "
						 "unique key are one job.");
		return parent;
	}
	return kNoElement;
}

/*
 * Place the element after its parents. A chain of parents may be as long as the array, so this
 * function uses a stack instead of a recursion.
 */
void
JobGraph::visit(uint32 element, uint32 *placed, uint8 *state, Step *stack)
{
	int64 depth = 0;
	stack[0] = {element, 0};
	state[element] = kOnStack;
	while (depth >= 0)
	{
		uint32 parent = next_parent(&stack[depth], state);
		if (parent == kNoElement)
		{
			uint32 done = stack[depth--].element;
			state[done] = kPlaced;
			order_[(*placed)++] = done;
			continue;
		}
		state[parent] = kOnStack;
		stack[++depth] = {parent, 0};
	}
}

void
JobGraph::order()
{
	uint32 placed = 0;
	auto allocate = [](Size bytes) {
		return MemoryContextAllocHuge(CurrentMemoryContext, Max(bytes, Size{1}));
	};
	order_ = static_cast<uint32 *>(allocate(n_ * sizeof(uint32)));
	auto *state = static_cast<uint8 *>(allocate(n_));
	auto *stack = static_cast<Step *>(allocate(n_ * sizeof(Step)));
	memset(state, kNew, n_);
	for (uint32 i = 0; i < n_; i++)
		if (state[i] == kNew)
			visit(i, &placed, state, stack);
	pfree(state);
	pfree(stack);
}

void
JobGraph::read(Jsonb *jobs)
{
	if (!has_names(jobs))
		return;
	read_names(jobs);
	sort_names();
	if (!has_children())
		return;
	resolve();
	order();
}

void
JobGraph::draw_ids(int64 *ids) const
{
	auto *drawn = static_cast<int64 *>(
		MemoryContextAllocHuge(CurrentMemoryContext, (n_ + 1) * sizeof(int64)));
	draw_job_ids(drawn, static_cast<int>(n_));
	/* Sort the ids: they descend if ALTER SEQUENCE has given the sequence a negative increment. */
	std::sort(drawn, drawn + n_);
	for (uint32 i = 0; i < n_; i++)
		ids[order_[i]] = drawn[i];
	pfree(drawn);
}

Dependency *
JobGraph::dependencies(const int64 *ids, bool inside, int *n) const
{
	*n = 0;
	auto *all = static_cast<Dependency *>(
		MemoryContextAllocHuge(CurrentMemoryContext, (n_parents_ + 1) * sizeof(Dependency)));
	for (uint32 i = 0; i < n_; i++)
	{
		const Element &at = elements_[i];
		for (int p = 0; at.parents != nullptr && p < at.parents->n; p++)
		{
			uint32 parent = at.inside[p];
			if ((parent != kNoElement) != inside)
				continue;
			int64 id = inside ? ids[parent] : at.parents->names[p].job_id;
			all[(*n)++] = {id, ids[i], at.on_failure, at.parents->names[p].ref};
		}
	}
	return all;
}

} // namespace pgq
