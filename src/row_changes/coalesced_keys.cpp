#include "row_changes/coalesced_keys.h"

namespace pgq {

static constexpr int kLongestKey = 255;
static constexpr char kKeyPrefix[] = "pgq_watch_table ";

namespace {

/* An entry of the hash table: a key of any length. */
struct KnownKey
{
	const char *bytes;
	int length;
};

} // namespace

static uint32
hash_of_known(const void *key, Size)
{
	const auto *known = static_cast<const KnownKey *>(key);
	return hash_bytes(reinterpret_cast<const unsigned char *>(known->bytes), known->length);
}

static int
compare_known(const void *a, const void *b, Size)
{
	const auto *one = static_cast<const KnownKey *>(a);
	const auto *two = static_cast<const KnownKey *>(b);
	return one->length != two->length ? 1 : memcmp(one->bytes, two->bytes, one->length);
}

/* Add a key. Returns false if it is known. */
bool
CoalescedKeys::add_bytes(const char *bytes, int length)
{
	bool found;
	KnownKey key = {bytes, length};
	if (known_ == nullptr)
	{
		HASHCTL control{};
		control.keysize = control.entrysize = sizeof(KnownKey);
		control.hash = hash_of_known;
		control.match = compare_known;
		control.hcxt = memory_;
		known_ = hash_create("pgq_ext coalesced keys", 256, &control,
							 HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
	}
	auto *entry = static_cast<KnownKey *>(hash_search(known_, &key, HASH_ENTER, &found));
	if (!found)
	{
		auto *copy = static_cast<char *>(MemoryContextAlloc(memory_, length));
		memcpy(copy, bytes, length);
		entry->bytes = copy;
	}
	return !found;
}

/* Return the hexadecimal digits of a hash of the text. */
static char *
digest_of(const char *text)
{
	Datum digest = DirectFunctionCall1(sha256_bytea, PointerGetDatum(cstring_to_text(text)));
	const bytea *bytes = DatumGetByteaPP(digest);
	auto length = static_cast<Size>(VARSIZE_ANY_EXHDR(bytes));
	auto *digits = static_cast<char *>(palloc0(2 * length + 1));
	(void) hex_encode(VARDATA_ANY(bytes), length, digits);
	return digits;
}

/* A key that is too long for a unique key is stored as its hash. */
text *
CoalescedKeys::add(Jsonb *payload)
{
	char *json = JsonbToCString(nullptr, &payload->root, static_cast<int>(VARSIZE(payload)));
	size_t room = kLongestKey - strlen(kKeyPrefix);
	const char *key = psprintf("%s%s", kKeyPrefix, strlen(json) <= room ? json : digest_of(json));
	return add_bytes(key, static_cast<int>(strlen(key))) ? cstring_to_text(key) : nullptr;
}

} // namespace pgq
