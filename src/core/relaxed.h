/*
 * A field of shared memory that some read without the lock it is written under: what they get
 * is whole, but may be out of date, and says nothing of the fields beside it.
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
