/*
 * Red-black tree links that may live in shared memory. The algorithms are those of Boost.Intrusive,
 * which work on plain nodes without hooks or destructors. The main shared memory segment is mapped
 * at the same address in every process, so plain pointers into it are valid everywhere.
 */
#pragma once

#include <boost/intrusive/rbtree_algorithms.hpp>
#include <cstddef>
#include <type_traits>

namespace pgq {

struct TreeNode
{
	TreeNode *parent;
	TreeNode *left;
	TreeNode *right;
	int colour;
};
static_assert(std::is_trivially_copyable_v<TreeNode> && std::is_standard_layout_v<TreeNode>);

struct TreeTraits
{
	using node = TreeNode;
	using node_ptr = TreeNode *;
	using const_node_ptr = const TreeNode *;
	using color = int;

	static node_ptr get_parent(const_node_ptr n) { return n->parent; }
	static void set_parent(node_ptr n, node_ptr p) { n->parent = p; }
	static node_ptr get_left(const_node_ptr n) { return n->left; }
	static void set_left(node_ptr n, node_ptr l) { n->left = l; }
	static node_ptr get_right(const_node_ptr n) { return n->right; }
	static void set_right(node_ptr n, node_ptr r) { n->right = r; }
	static color get_color(const_node_ptr n) { return n->colour; }
	static void set_color(node_ptr n, color c) { n->colour = c; }
	static color black() { return 0; }
	static color red() { return 1; }
};

using Tree = boost::intrusive::rbtree_algorithms<TreeTraits>;

/* Return the struct that contains the member at this offset. */
template <typename T, typename M>
inline T *
container_of(M *member, size_t offset)
{
	return reinterpret_cast<T *>(reinterpret_cast<char *>(member) - offset);
}

} // namespace pgq
