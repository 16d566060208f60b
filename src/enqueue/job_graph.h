/*
 * The graph of a call of pgq_enqueue_many: which elements are named by `ref`, and which elements
 * and other jobs are named by `after`. Ids are drawn in an order in which parents come first: in a
 * queue with fifo a child with a smaller id than its parent would be the head of their group, and
 * blocked by a job that it keeps from running.
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
	 * Return the dependencies. With inside, those on other elements, by the ids of these; otherwise
	 * those on jobs that are named by their ids. *n: their number.
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
		uint32 *inside;			   /* by parent: the element that it means; kNoElement: a job id */
		OnFailure on_failure;
		bool is_parent;
	};
	struct Step
	{
		uint32 element;
		int next; /* the parent to visit next */
	};
	static constexpr uint32 kNoElement = UINT32_MAX;
	/* Whether order() has placed an element. */
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
	uint32 *refs_ = nullptr; /* the elements with a ref, in the order of these */
	uint32 n_refs_ = 0;
	uint32 *keys_ = nullptr; /* the elements with a unique key, in the order of these */
	uint32 n_keys_ = 0;
	int64 n_parents_ = 0;	  /* sum over the elements */
	uint32 *order_ = nullptr; /* the elements, parents first */
};

} // namespace pgq
