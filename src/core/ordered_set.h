/*
 * A bounded set of ordered values. The caller gives the memory of the nodes, so the set can live in
 * shared memory. Of equal values the set keeps only the latest. Not locked: the owner of the set
 * says which lock protects it.
 */
#pragma once

#include "core/tree.h"

#include <cassert>
#include <cstdint>

namespace pgq {

template <typename T, typename Order> class OrderedSet
{
public:
	struct Node
	{
		TreeNode links;
		T value;
	};

	void init(Node *storage, uint32_t capacity)
	{
		assert(capacity > 0);
		storage_ = storage;
		capacity_ = capacity;
		peak_ = 0;
		clear();
	}

	void clear()
	{
		Tree::init_header(&header_);
		unused_ = nullptr;
		fresh_ = 0;
		size_ = 0;
	}

	uint32_t size() const { return size_; }
	uint32_t capacity() const { return capacity_; }
	uint32_t peak() const { return peak_; } /* greatest size since init() */
	bool empty() const { return size_ == 0; }
	bool full() const { return size_ == capacity_; }

	const T &min() const
	{
		assert(!empty());
		return value_of(Tree::begin_node(&header_));
	}

	const T &max() const
	{
		assert(!empty());
		return value_of(Tree::prev_node(Tree::end_node(const_cast<TreeNode *>(&header_))));
	}

	/*
	 * Insert the value. If the set has an equal value, replace that value and return false.
	 * Otherwise the set must not be full.
	 */
	bool insert(const T &value)
	{
		Tree::insert_commit_data position;
		auto [equal, is_new] = Tree::insert_unique_check(&header_, &value, Less{}, position);
		if (!is_new)
		{
			node_of(equal)->value = value;
			return false;
		}
		assert(!full());
		Node *node = take_node();
		node->value = value;
		Tree::insert_unique_commit(&header_, &node->links, position);
		if (++size_ > peak_)
			peak_ = size_;
		return true;
	}

	bool contains(const T &value) const { return Tree::find(&header_, &value, Less{}) != &header_; }

	/*
	 * Return a value of the set; NULL: there is none. first_from() returns the first value that is
	 * not less than `value`, first_after() the first that is greater, last_before() the last that
	 * is less.
	 */
	const T *first_from(const T &value) const
	{
		return value_or_null(Tree::lower_bound(&header_, &value, Less{}));
	}
	const T *first_after(const T &value) const
	{
		return value_or_null(Tree::upper_bound(&header_, &value, Less{}));
	}
	const T *last_before(const T &value) const
	{
		TreeNode *n = Tree::lower_bound(&header_, &value, Less{});
		return n == Tree::begin_node(&header_) ? nullptr : value_or_null(Tree::prev_node(n));
	}

	/* Return for how many values less than `value` counts() is true, but at most `most`. */
	template <typename Counts>
	uint32_t count_before(const T &value, uint32_t most, Counts counts) const
	{
		uint32_t n = 0;
		for (auto node = Tree::begin_node(&header_);
			 node != &header_ && n < most && Order::less(value_of(node), value);
			 node = Tree::next_node(node))
			n += counts(value_of(node));
		return n;
	}

	/* Remove a value, given by its address in the set, and return it. */
	T take(const T *value)
	{
		return remove(&container_of<Node>(const_cast<T *>(value), offsetof(Node, value))->links);
	}

	T pop_min() { return remove(Tree::begin_node(&header_)); }

	T pop_max() { return remove(Tree::prev_node(Tree::end_node(&header_))); }

	/* Call visit() for the first n values. visit() may replace or remove the value that it gets. */
	template <typename Visit> void for_first(int n, Visit visit) const
	{
		TreeNode *node = Tree::begin_node(&header_);
		for (int i = 0; i < n && node != &header_; i++)
		{
			TreeNode *next = Tree::next_node(node);
			visit(value_of(node));
			node = next;
		}
	}

	template <typename Visit> void for_each(Visit visit) const
	{
		for (auto n = Tree::begin_node(&header_); n != &header_; n = Tree::next_node(n))
			visit(value_of(n));
	}

private:
	static Node *node_of(const TreeNode *n)
	{
		return container_of<Node>(const_cast<TreeNode *>(n), offsetof(Node, links));
	}
	const T *value_or_null(const TreeNode *n) const
	{
		return n == &header_ ? nullptr : &value_of(n);
	}
	static const T &value_of(const TreeNode *n) { return node_of(n)->value; }
	static const T &get(const T *v) { return *v; }
	static const T &get(const TreeNode *n) { return value_of(n); }

	struct Less
	{
		template <typename A, typename B> bool operator()(const A &a, const B &b) const
		{
			return Order::less(get(a), get(b));
		}
	};

	Node *take_node()
	{
		if (Node *node = unused_)
		{
			unused_ = reinterpret_cast<Node *>(node->links.parent);
			return node;
		}
		return &storage_[fresh_++];
	}

	T remove(TreeNode *n)
	{
		assert(!empty());
		Tree::erase(&header_, n);
		Node *node = node_of(n);
		T value = node->value;
		node->links.parent = reinterpret_cast<TreeNode *>(unused_);
		unused_ = node;
		size_--;
		return value;
	}

	TreeNode header_;
	Node *storage_;
	Node *unused_;	 /* list of returned nodes, linked through links.parent */
	uint32_t fresh_; /* nodes from this number on were never used */
	uint32_t size_;
	uint32_t capacity_;
	uint32_t peak_;
};

} // namespace pgq
