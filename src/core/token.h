/*
 * Lease tokens as numbers: a prefix, which grows with the clock, and ten check bits.
 *
 * The prefix is milliseconds since 2020, or the last prefix drawn if that is greater. Many tokens
 * share a prefix, but each token of a job has a greater prefix than the job's token before. The
 * check bits are a hash of job and prefix, computed with a key of the database. After a restart
 * memory does not know old tokens. The check bits then distinguish a real token of the job from an
 * arbitrary number and from a token of another job (late ack). Tokens are below 2^53 until the year
 * 2298.
 */
#pragma once

#include <cstdint>

namespace pgq {

inline constexpr int kCheckBits = 10;
inline constexpr int64_t kCheckMask = (INT64_C(1) << kCheckBits) - 1;

constexpr int64_t
token_of(int64_t prefix, int64_t check)
{
	return prefix * (kCheckMask + 1) + check;
}

constexpr int64_t
prefix_of(int64_t token)
{
	return token >> kCheckBits;
}

constexpr int64_t
check_of(int64_t token)
{
	return token & kCheckMask;
}

/* Return the greatest token with that prefix. */
constexpr int64_t
greatest_of(int64_t prefix)
{
	return token_of(prefix, kCheckMask);
}

/* Return the greatest prefix for which all tokens are at most `mark`. */
constexpr int64_t
greatest_prefix_below(int64_t mark)
{
	return prefix_of(mark + 1) - 1;
}

struct TokenKey
{
	uint64_t word[2];
};

/*
 * SipHash-1-3 of two words. The length of the input is not hashed, since it is always two words.
 * Without the key, the check bits of a token cannot be guessed, even from any number of other
 * tokens. Takes about 15 ns.
 */
class TokenHash
{
public:
	constexpr explicit TokenHash(const TokenKey &key)
		: v0_(key.word[0] ^ UINT64_C(0x736f6d6570736575)),
		  v1_(key.word[1] ^ UINT64_C(0x646f72616e646f6d)),
		  v2_(key.word[0] ^ UINT64_C(0x6c7967656e657261)),
		  v3_(key.word[1] ^ UINT64_C(0x7465646279746573))
	{}

	constexpr void add(uint64_t word)
	{
		v3_ ^= word;
		mix();
		v0_ ^= word;
	}

	constexpr uint64_t finish()
	{
		v2_ ^= 0xff;
		mix();
		mix();
		mix();
		return v0_ ^ v1_ ^ v2_ ^ v3_;
	}

private:
	static constexpr uint64_t rotated(uint64_t word, int by)
	{
		return word << by | word >> (64 - by);
	}

	constexpr void mix()
	{
		v0_ += v1_;
		v1_ = rotated(v1_, 13) ^ v0_;
		v0_ = rotated(v0_, 32);
		v2_ += v3_;
		v3_ = rotated(v3_, 16) ^ v2_;
		v0_ += v3_;
		v3_ = rotated(v3_, 21) ^ v0_;
		v2_ += v1_;
		v1_ = rotated(v1_, 17) ^ v2_;
		v2_ = rotated(v2_, 32);
	}

	uint64_t v0_, v1_, v2_, v3_;
};

constexpr int64_t
check_bits(const TokenKey &key, int64_t job_id, int64_t prefix)
{
	TokenHash hash(key);
	hash.add(static_cast<uint64_t>(job_id));
	hash.add(static_cast<uint64_t>(prefix));
	return static_cast<int64_t>(hash.finish()) & kCheckMask;
}

/*
 * Convert the key that is stored in the database into the key in use, or back. CREATE DATABASE ...
 * TEMPLATE copies the stored key, but the copy must not accept leases of the original; so the key
 * in use depends on the database.
 */
constexpr TokenKey
mixed_with(const TokenKey &key, uint32_t database)
{
	return {{key.word[0], key.word[1] ^ database * UINT64_C(0x9e3779b97f4a7c15)}};
}

/*
 * The last prefix is stored in one atomic word, together with a flag in the lowest bit: there is a
 * token with this prefix. drawn() returns the word with the flag, undrawn() the word without it.
 */
constexpr uint64_t
drawn(int64_t prefix)
{
	return static_cast<uint64_t>(prefix) << 1 | 1;
}

constexpr uint64_t
undrawn(int64_t prefix)
{
	return static_cast<uint64_t>(prefix) << 1;
}

constexpr int64_t
last_prefix(uint64_t word)
{
	return static_cast<int64_t>(word >> 1);
}

/*
 * Return the word to store instead of `word`, so that each later token has a greater prefix than
 * all tokens that exist.
 */
constexpr uint64_t
passed(uint64_t word)
{
	return (word & 1) != 0 ? undrawn(last_prefix(word) + 1) : word;
}

} // namespace pgq
