/*
 * A field of shared memory that some processes read without the lock under which the field is
 * written. A reader gets a whole value, never a mixture of two. But the value may be out of date,
 * and need not match the fields beside it.
 */
#pragma once

#include <type_traits>

namespace pgq {

template <typename T> class Relaxed
{
public:
	operator T() const
	{
		T value;
		__atomic_load(&value_, &value, __ATOMIC_RELAXED);
		return value;
	}
	Relaxed &operator=(T value)
	{
		__atomic_store(&value_, &value, __ATOMIC_RELAXED);
		return *this;
	}
	T operator->() const { return *this; }

private:
	T value_;
	static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(void *));
};

} // namespace pgq
