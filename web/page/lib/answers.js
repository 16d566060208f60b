// Reads answers of the server: rows, exact sums, and the state of a job wherever it is.

export function rowsOf(answer) {
	return Array.isArray(answer) ? answer : (answer?.rows ?? []);
}

// Adds counts exactly. Returns null if one of them is not known.
export function sum(rows, name) {
	let total = 0n;
	for (const row of rows) {
		if (row[name] === null || row[name] === undefined) return null;
		total += BigInt(row[name]);
	}
	return String(total);
}

// The state of a live job, dead for a dead letter, the outcome of a finished job; null: there is no
// such job.
export function stateOf(job) {
	if (!job?.where) return job?.state ?? null;
	return job.where === 'dead' ? 'dead' : (job.state ?? job.outcome ?? job.where);
}

// The answer about a queue has its options and its numbers in one object. These members are no
// options.
export const STATUS = new Set([
	'queue',
	'queue_id',
	'paused',
	'paused_at',
	'ready',
	'scheduled',
	'blocked',
	'leased',
	'dead',
	'depth',
	'oldest_ready_age',
	'waiting_claims',
	'last_claim_at',
	'created_at',
	'enqueued_rate',
	'acked_rate',
	'failed_rate',
]);
