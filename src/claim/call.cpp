#include "claim/call.h"

#include "claim/session_lease.h"
#include "claim/wait.h"
#include "pg/stop_point.h"
#include "txn/effects.h"

namespace pgq {

/*
 * Claim until at least one job is handed out, or no job is available. If the claim has taken jobs,
 * but none of them may be handed out any more, claim again.
 */
static HandedOut
claim_until_handed_out(const QueueRef *refs, char *const *names, int n, Claim *claim,
					   const ClaimReceiver &receiver)
{
	for (;;)
	{
		claim_jobs(refs, names, n, claim);
		stop_point("claim-hand-out");
		require_rights(refs, names, n);
		HandedOut out = hand_out_all(claim);
		if (out.jobs > 0 || out.kept == 0)
			return out;
		receiver.clear(receiver.result);
		claim->n = 0;
	}
}

int
claim_for(const ClaimReceiver &receiver, const ClaimOptions &options, const QueueRef *refs,
		  char *const *names, int n)
{
	Claim claim{};
	claim.options = &options;
	claim.ready =
		static_cast<Ready *>(MemoryContextAlloc(receiver.memory, options.max_jobs * sizeof(Ready)));
	if (options.session_bound && !options.ends_them_itself)
		reserve_session_leases(options.max_jobs);
	claim.give = receiver.give;
	claim.result = receiver.result;
	begin_claim_call();
	HandedOut out = claim_until_handed_out(refs, names, n, &claim, receiver);
	note_empty(refs, claim);
	receiver.end(receiver.result, claim.ready, out);
	end_claim_call();
	return out.jobs;
}

} // namespace pgq
