/* The results of the acks of this transaction, for children that the transaction enqueues later. */
#include "txn/effects.h"
#include "txn/pending.h"

namespace pgq {

/* Make room for a result of this size. Forget all earlier results if there is no room. */
static void
make_room_for_result(OwnResults &results, Size size)
{
	Size most = mul_size(work_mem, 1024);
	if (results.memory == nullptr)
		results.memory =
			AllocSetContextCreate(TopTransactionContext, "results of acks", ALLOCSET_SMALL_SIZES);
	else if (results.size > most - Min(most, size))
	{
		MemoryContextReset(results.memory);
		results.list.size = 0;
		results.size = 0;
	}
	results.list.reserve(1);
	results.size += size + sizeof(OwnResult);
}

void
keep_own_result(int64 job_id, const Datum *result)
{
	if (result == nullptr)
		return;
	OwnResults &results = pending.effects.results;
	const Jsonb *value = DatumGetJsonbP(*result);
	make_room_for_result(results, VARSIZE(value));
	auto *copy = static_cast<Jsonb *>(MemoryContextAllocHuge(results.memory, VARSIZE(value)));
	memcpy(copy, value, VARSIZE(value));
	results.list.push({current_tag(), job_id, copy});
}

const Jsonb *
own_result_of(int64 job_id)
{
	const List<OwnResult> &list = pending.effects.results.list;
	for (auto i = list.size; i-- > 0;)
		if (list.begin()[i].job_id == job_id)
			return list.begin()[i].result;
	return nullptr;
}

void
undo_own_results(SubTransactionId mine)
{
	OwnResults &results = pending.effects.results;
	List<OwnResult> &list = results.list;
	while (list.size > 0 && list.end()[-1].tag.belongs_to(mine))
	{
		auto *result = const_cast<Jsonb *>(list.end()[-1].result);
		results.size -= VARSIZE(result) + sizeof(OwnResult);
		pfree(result);
		list.size--;
	}
}

} // namespace pgq
