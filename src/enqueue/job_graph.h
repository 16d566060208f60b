/*
 * The dependencies of the elements in a call of pgq_enqueue_many: the names that elements have by
 * `ref`, and the elements and jobs that they name in `after`. Each element gets a greater id than
 * its parents. Otherwise, in a queue with fifo, a child with a smaller id than its parent would be
 * the head of their group, and the parent could never run.
 */
#pragma once

#include "enqueue/job_json.h"

namespace pgq {

class JobGraph
{
public:
	/*
	 * Read the names of all elements. Raises 22023 if an element names an unknown ref, if a ref is
	 * used twice, or if elements wait for each other in a circle. A later element with the same unique
	 * key as an earlier one is not another job: who waits for it, waits for the earlier one.
	 */
	void read(Jsonb *jobs);

	/* Return whether an element has parents. */
	bool has_children() const { return n_parents_ > 0; }

	/* Draw ids for all elements, so that each element has a greater id than its parents. */
	void draw_ids(int64 *ids) const;

	/*
	 * Return the dependencies, and set *n to their number. inside: true for dependencies on other
	 * elements, whose ids are in `ids`; false for dependencies on jobs that are named by their ids.
	 */
	Dependency *dependencies(const int64 *ids, bool inside, int *n) const;

	/* Call visit(element) for each element that is a parent, in the order of the array. */
	template <typename Visit> void visit_parents(Visit visit) const
	{
		for (uint32 i = 0; i < n_; i++)
			if (elements_[i].is_parent)
				visit(i);
	}

private:
	struct Element
	{
		const text *ref;
		const text *key;		   /* the unique key, or NULL */
		const ParentList *parents; /* or NULL */
		/* for each parent: the number of the element; kNoElement: the parent is named by its id */
		uint32 *inside;
		OnFailure on_failure;
		bool is_parent;
	};
	struct Step
	{
		uint32 element;
		int next; /* index of the next parent to visit */
	};
	static constexpr uint32 kNoElement = UINT32_MAX;
	/* The state of an element in order(): not visited yet, on the stack, or placed. */
	static constexpr uint8 kNew = 0;
	static constexpr uint8 kOnStack = 1;
	static constexpr uint8 kPlaced = 2;

	void read_names(Jsonb *jobs);
	template <typename Name> uint32 *sorted_by(Name name, uint32 n) const;
	template <typename Name>
	static uint32 first_with(const uint32 *sorted, uint32 n, Name name, const text *wanted);
	void sort_names();
	uint32 find_ref(const text *ref) const;
	void resolve();
	void order();
	uint32 next_parent(Step *step, const uint8 *state) const;
	void visit(uint32 element, uint32 *placed, uint8 *state, Step *stack);

	Element *elements_ = nullptr;
	uint32 n_ = 0;
	uint32 *refs_ = nullptr; /* numbers of the elements with a ref, sorted by ref */
	uint32 n_refs_ = 0;
	uint32 *keys_ = nullptr; /* numbers of the elements with a unique key, sorted by key */
	uint32 n_keys_ = 0;
	int64 n_parents_ = 0;	  /* number of all parents of all elements */
	uint32 *order_ = nullptr; /* numbers of the elements, with parents before their children */
};

} // namespace pgq
