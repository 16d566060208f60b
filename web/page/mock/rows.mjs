// Queues, jobs, dead letters and handlers of which the canned answers consist.
//
// kind: plain | hostile (markup, direction marks, long texts) | empty; queues: how many there are.

const HOSTILE = [
	'<img src=x onerror=alert(1)>',
	'"><script>alert(2)</script>',
	'exe\u202egpj.fdp',
	'a\u200bb',
	'日本語 очередь ümläut 🐘',
	"'; DROP TABLE job; --",
	'x'.repeat(55),
	'a/b?c#d%25&e=f',
	'  spaces  ',
	'line\nbreak',
];
const PLAIN = [
	'mail',
	'reports',
	'thumbnails',
	'invoices',
	'webhooks',
	'search-index',
	'imports',
	'slow.exports',
];
const ERRORS = [
	'connection to smtp.example.org:25 timed out',
	'no such mailbox: ann@example.org',
	'division by zero',
	null,
];
const BAD_ERRORS = [
	'<b onmouseover=alert(3)>bold</b>',
	'100% of a_b\\c failed',
	'Ω'.repeat(3000),
	'Traceback:\n  File "x.py", line 1\n\tboom\u0007',
];

export const iso = (secondsAgo) =>
	new Date(Date.now() - secondsAgo * 1000).toISOString().replace('Z', '123Z');
// A number that is the same at each run.
export const noise = (n) => Math.abs(Math.sin(n * 12.9898) * 43758.5453) % 1;

export function makeRows({ kind, queues, hidePayload }) {
	const isHostile = kind === 'hostile';
	const isEmpty = kind === 'empty';
	const fixed = isHostile ? HOSTILE : PLAIN;
	const names = isEmpty
		? []
		: Array.from({ length: queues ?? fixed.length }, (_, i) => fixed[i] ?? `queue-${i}`);
	const errors = isHostile ? BAD_ERRORS : ERRORS;
	const paused = new Set(names.slice(2, 3));

	const status = (queue, i) => ({
		queue,
		ready: i === 5 ? '9007199254740993' : String(Math.floor(noise(i) * 5000)),
		scheduled: String(Math.floor(noise(i + 1) * 300)),
		blocked: String(i % 3 ? 0 : 7),
		leased: String(Math.floor(noise(i + 2) * 40)),
		dead: String(i % 4 ? 0 : 12 + i),
		depth: null,
		oldest_ready_age: noise(i + 3) * 4000,
		waiting_claims: i % 5,
		last_claim_at: iso(noise(i) * 100),
		paused: paused.has(queue),
		enqueued_rate: noise(i + 4) * 100,
		acked_rate: noise(i + 5) * 100,
		failed_rate: i % 3 ? 0 : noise(i + 6),
	});
	const job = (n) => {
		const state = ['ready', 'scheduled', 'blocked', 'leased'][n % 4];
		return {
			job_id: String(9007199254740000n + BigInt(n)),
			queue: names[n % names.length],
			state,
			priority: n % 3,
			run_at: iso(n * 3 - 300),
			waits_for: {
				ready: `behind ${n} jobs`,
				scheduled: 'its run_at',
				blocked: `job ${n - 1} (leased)`,
				leased: null,
			}[state],
			attempts: n % 5,
			max_attempts: 20,
			group_key: n % 2 ? `customer ${n % 7}` : null,
			unique_key: null,
			enqueued_at: iso(n * 60),
			expires_at: null,
			worker: state === 'leased' ? 'worker-3@host7' : null,
			lease_expires_at: state === 'leased' ? iso(-200) : null,
			last_error: n % 5 ? errors[n % 3] : null,
			progress: null,
			batch: n % 6 ? null : '17',
			payload: hidePayload ? null : `{"to": "ann@example.org", "n": ${n}}`,
		};
	};
	const letter = (n) => ({
		job_id: String(500000 + n),
		queue: names[n % 2 ? 0 : 4 % names.length],
		died_at: iso(n * 500),
		attempts: 20,
		reason: 'max_attempts reached',
		last_error: errors[n % errors.length],
	});

	function handlers() {
		return [
			{
				queue: names[1],
				handler: 'app.send(pgq_ext.claimed_job)',
				run_as: 'app',
				workers: 4,
				running: 2,
				batch: 1,
				timeout: 60,
				state: 'active',
				reason: null,
				since: null,
				next_try_at: null,
				calls: '88123',
				failures: '12',
				last_error: errors[0],
			},
			{
				queue: names[3],
				handler: 'app.bill(pgq_ext.claimed_job)',
				run_as: 'billing',
				workers: 1,
				running: 0,
				batch: 1,
				timeout: 60,
				state: 'suspended',
				reason: 'function app.bill(pgq_ext.claimed_job) does not exist',
				since: iso(600),
				next_try_at: iso(-60),
				calls: '3',
				failures: '0',
				last_error: null,
			},
		];
	}

	return { names, paused, errors, isHostile, isEmpty, status, job, letter, handlers };
}
