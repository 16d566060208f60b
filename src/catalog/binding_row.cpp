#include "catalog/binding_row.h"

#include "catalog/owner_sql.h"
#include "catalog/topic_table.h"
#include "core/topic_match.h"

#include <algorithm>

namespace pgq {

static Datum
text_datum(std::string_view text)
{
	return PointerGetDatum(cstring_to_text_with_len(text.data(), static_cast<int>(text.size())));
}

static std::string_view
view_of(const text *value)
{
	return {VARDATA_ANY(value), static_cast<size_t>(VARSIZE_ANY_EXHDR(value))};
}

/* Copy row i of the last statement. Returns false if pgq_bind would refuse the pattern. */
static bool
read_binding(int i, MemoryContext context, Binding *binding)
{
	std::string_view word;
	std::string_view pattern = view_of(DatumGetTextPP(spi_value(i, 2, TEXTOID)));
	if (check_pattern(pattern, &word) != PatternFault::kNone)
		return false;
	auto *copy = static_cast<char *>(MemoryContextAlloc(context, pattern.size() + 1));
	memcpy(copy, pattern.data(), pattern.size());
	binding->queue_id = DatumGetInt32(spi_value(i, 1, INT4OID));
	binding->pattern = {copy, pattern.size()};
	binding->skip_if_full = DatumGetBool(spi_value(i, 3, BOOLOID));
	return true;
}

Binding *
read_bindings(int *n, bool *lasting)
{
	MemoryContext context = CurrentMemoryContext;
	Binding *bindings = nullptr;
	*n = 0;
	*lasting = lock_topic_table(TopicTable::kBinding, AccessShareLock);
	as_owner([&] {
		auto found = static_cast<int>(
			spi_execute("SELECT queue_id, pattern, when_full OPERATOR(pg_catalog.=) 'skip' FROM "
						"ONLY pgq_ext.topic_binding",
						nullptr, 0));
		bindings =
			static_cast<Binding *>(MemoryContextAllocHuge(context, (found + 1) * sizeof(Binding)));
		for (int i = 0; i < found; i++)
			*n += read_binding(i, context, &bindings[*n]);
	});
	std::sort(bindings, bindings + *n, [](const Binding &a, const Binding &b) {
		return a.pattern != b.pattern ? pattern_less(a.pattern, b.pattern)
									  : a.queue_id < b.queue_id;
	});
	return bindings;
}

void
write_binding(const Binding &binding)
{
	const SpiArgument row[] = {
		{INT4OID, Int32GetDatum(binding.queue_id), false},
		{TEXTOID, text_datum(binding.pattern), false},
		{BOOLOID, BoolGetDatum(binding.skip_if_full), false},
		{TEXTOID, CStringGetTextDatum(GetUserNameFromId(GetUserId(), false)), false}};
	(void) lock_topic_table(TopicTable::kBinding, RowExclusiveLock);
	as_owner([&] {
		(void) spi_execute(
			"INSERT INTO pgq_ext.topic_binding (queue_id, pattern, when_full, maker_name) "
			"VALUES ($1, $2, CASE WHEN $3 THEN 'skip' ELSE 'error' END, $4) "
			"ON CONFLICT (queue_id, pattern) DO UPDATE SET when_full = EXCLUDED.when_full",
			row);
	});
	invalidate_topic_table(TopicTable::kBinding);
	CommandCounterIncrement();
}

bool
delete_binding(int32 queue_id, std::string_view pattern)
{
	const SpiArgument row[] = {{INT4OID, Int32GetDatum(queue_id), false},
							   {TEXTOID, text_datum(pattern), false}};
	uint64 deleted = 0;
	(void) lock_topic_table(TopicTable::kBinding, RowExclusiveLock);
	as_owner([&] {
		deleted = spi_execute("DELETE FROM ONLY pgq_ext.topic_binding WHERE queue_id "
							  "OPERATOR(pg_catalog.=) $1 AND pattern OPERATOR(pg_catalog.=) $2",
							  row);
	});
	invalidate_topic_table(TopicTable::kBinding);
	CommandCounterIncrement();
	return deleted > 0;
}

void
delete_bindings_of(int32 queue_id)
{
	const SpiArgument id[] = {{INT4OID, Int32GetDatum(queue_id), false}};
	if (!OidIsValid(find_topic_table(TopicTable::kBinding)))
		return;
	(void) lock_topic_table(TopicTable::kBinding, RowExclusiveLock);
	uint64 deleted = 0;
	as_owner([&] {
		deleted = spi_execute("DELETE FROM ONLY pgq_ext.topic_binding WHERE queue_id "
							  "OPERATOR(pg_catalog.=) $1",
							  id);
	});
	if (deleted > 0)
		invalidate_topic_table(TopicTable::kBinding);
}

} // namespace pgq
