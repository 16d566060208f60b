// Canned answers in the form of the contract between pgq-web and its page.
// kind: plain | hostile (markup, direction marks, long texts) | empty; queues: how many there are.

const HOSTILE = ['<img src=x onerror=alert(1)>', '"><script>alert(2)</script>', 'exe\u202egpj.fdp', 'a\u200bb', '日本語 очередь ümläut 🐘',
	"'; DROP TABLE job; --", 'x'.repeat(55), 'a/b?c#d%25&e=f', '  spaces  ', 'line\nbreak'];
const PLAIN = ['mail', 'reports', 'thumbnails', 'invoices', 'webhooks', 'search-index', 'imports', 'slow.exports'];
const ERRORS = ['connection to smtp.example.org:25 timed out', 'no such mailbox: ann@example.org', 'division by zero', null];
const BAD_ERRORS = ['<b onmouseover=alert(3)>bold</b>', '100% of a_b\\c failed', 'Ω'.repeat(3000), 'Traceback:\n  File "x.py", line 1\n\tboom\u0007'];

const iso = (secondsAgo) => new Date(Date.now() - secondsAgo * 1000).toISOString().replace('Z', '123Z');
// A number that is the same at each run.
const noise = (n) => Math.abs(Math.sin(n * 12.9898) * 43758.5453) % 1;

export function makeData({ kind, queues, hidePayload }) {
	const isHostile = kind === 'hostile';
	const isEmpty = kind === 'empty';
	const fixed = isHostile ? HOSTILE : PLAIN;
	const names = isEmpty ? [] : Array.from({ length: queues ?? fixed.length }, (_, i) => fixed[i] ?? `queue-${i}`);
	const errors = isHostile ? BAD_ERRORS : ERRORS;
	const paused = new Set(names.slice(2, 3));

	const status = (queue, i) => ({
		queue, ready: i === 5 ? '9007199254740993' : String(Math.floor(noise(i) * 5000)), scheduled: String(Math.floor(noise(i + 1) * 300)),
		blocked: String(i % 3 ? 0 : 7), leased: String(Math.floor(noise(i + 2) * 40)), dead: String(i % 4 ? 0 : 12 + i), depth: null,
		oldest_ready_age: noise(i + 3) * 4000, waiting_claims: i % 5, last_claim_at: iso(noise(i) * 100), paused: paused.has(queue),
		enqueued_rate: noise(i + 4) * 100, acked_rate: noise(i + 5) * 100, failed_rate: i % 3 ? 0 : noise(i + 6),
	});
	const job = (n) => {
		const state = ['ready', 'scheduled', 'blocked', 'leased'][n % 4];
		return {
			job_id: String(9007199254740000n + BigInt(n)), queue: names[n % names.length], state, priority: n % 3, run_at: iso(n * 3 - 300),
			waits_for: { ready: `behind ${n} jobs`, scheduled: 'its run_at', blocked: `job ${n - 1} (leased)`, leased: null }[state],
			attempts: n % 5, max_attempts: 20, group_key: n % 2 ? `customer ${n % 7}` : null, unique_key: null, enqueued_at: iso(n * 60), expires_at: null,
			worker: state === 'leased' ? 'worker-3@host7' : null, lease_expires_at: state === 'leased' ? iso(-200) : null,
			last_error: n % 5 ? errors[n % 3] : null, progress: null, batch: n % 6 ? null : '17', payload: hidePayload ? null : `{"to": "ann@example.org", "n": ${n}}`,
		};
	};
	const letter = (n) => ({ job_id: String(500000 + n), queue: names[n % 2 ? 0 : 4 % names.length], died_at: iso(n * 500), attempts: 20, reason: 'max_attempts reached', last_error: errors[n % errors.length] });

	return {
		names, paused,
		overview({ find = '', sort = 'queue', limit = 200 }) {
			const all = names.map(status).filter(({ queue }) => queue.toLowerCase().includes(find.toLowerCase()));
			if (sort === 'queue') all.sort((a, b) => (a.queue < b.queue ? -1 : 1));
			else all.sort((a, b) => Number(b[sort]) - Number(a[sort]));
			const total = (name) => String(names.map(status).reduce((sum, row) => sum + BigInt(row[name]), 0n));
			return {
				health: isEmpty ? [{ check: 'library', status: 'ok', detail: 'version 0.2', hint: null }] : [
					{ check: 'unclaimed', status: 'fail', detail: `queue "${names[0]}": jobs wait, and nobody has claimed for 12 minutes`, hint: 'Start workers for the queue.' },
					{ check: 'paused', status: 'warn', detail: `queue "${names[2] ?? ''}" has been paused for 3 hours`, hint: 'Call pgq_resume_queue, unless the pause is intended.' },
					...['library', 'scheduler', 'duties', 'capacity', 'rotation', 'snapshots', 'depth', 'rates'].map((check) => ({ check, status: 'ok', detail: 'nothing to report', hint: null })),
				],
				queues: all.slice(0, Number(limit)), more: all.length > Number(limit), notes: isHostile ? ['role <i>monitor</i> may not read payload of pgq_ext.job'] : [],
				totals: { queues: String(names.length), paused: String(paused.size), ...Object.fromEntries(['ready', 'scheduled', 'blocked', 'leased', 'dead'].map((name) => [name, total(name)])) },
			};
		},
		history() {
			const n = isEmpty ? 0 : 360;
			const times = Array.from({ length: n }, (_, i) => iso((n - i) * 10));
			const line = (seed, scale) => times.map((_, i) => (i > 200 && i < 215 ? null : scale * (1 + Math.sin(i / 40 + seed) / 2 + noise(i + seed) / 4)));
			return {
				times, enqueued: line(1, 80), claimed: line(2, 75), acked: line(2, 70), failed: line(4, 2), died: line(5, 0.1), ready: line(6, 1200),
				wait_p50: line(7, 0.08), wait_p95: line(8, 0.4), run_p50: line(9, 0.012), run_p95: line(10, 0.09), notes: [],
			};
		},
		queue({ name }) {
			if (!names.includes(name)) return null;
			const i = names.indexOf(name);
			return {
				queue: { ...withoutRates(status(name, i)), paused_at: paused.has(name) ? iso(9000) : null, lease_time: 300, max_runtime: 0, max_attempts: 20, backoff_base: 1, backoff_max: 3600, backoff_jitter: 0.2,
					concurrency: 20, rate_limit: 0, rate_period: 1, group_rate_limit: 0, group_concurrency: 2, fifo: false, fair: true, max_depth: '1000000', log_attempts: 'failed', keep_attempts: 604800, keep_finished: 86400, keep_dead: 2592000, notify: true },
				stats: { queue: name, stats_since: iso(86400), enqueued: '9007199254740993', claims: '88123', empty_claims: '301', handed_out: '1203345', acked: '1203001', failed: '231', lost: '3', dead_lettered: '12', wait_p50: 0.08, wait_p95: 0.41, run_p50: 0.012, run_p95: 0.09 },
				handler: i === 1 ? handlers()[0] : null, bindings: [{ pattern: 'order.*.created', queue: name, when_full: 'error', created_at: iso(5e6), maker: 'app' }], watches: [], schedules: [],
				groups: [{ group_key: 'customer 3', leased: '2' }, { group_key: 'customer 5', leased: '1' }],
				waits_for: [{ waits_for: 'a worker: nobody claims', jobs: '71' }, { waits_for: 'group "customer 3": 2 of 2 jobs in work', jobs: '22' }, { waits_for: 'its run_at', jobs: '7' }], latency: [], notes: [],
			};
		},
		jobs({ queue, state, after, error, payload }) {
			const from = Number(after ?? 0);
			const rows = isEmpty ? [] : Array.from({ length: 1000 }, (_, n) => job(n)).filter((row) => (!state || row.state === state)).map((row) => ({ ...row, queue: queue ?? row.queue }));
			return { rows: rows.slice(from, from + 100), more: rows.length > from + 100, after: rows.length > from + 100 ? String(from + 100) : null, searched: error || payload ? '10000' : null, notes: [] };
		},
		job({ id, full }) {
			if (isEmpty || id === '1') return { job: { where: null }, explanation: [{ step: 'unknown', detail: `there is no trace of job ${id}` }], attempts: [], parents: [], children: [], batch: null, steps: [], timeline: [], notes: [] };
			const dead = Number(id) >= 500000 && Number(id) < 600000;
			const row = dead ? { ...letter(0), where: 'dead', enqueued_at: iso(5000), run_at: iso(5000), max_attempts: 20, priority: 0 } : { ...job(Number(BigInt(id) % 1000n)), where: 'live' };
			const big = id.endsWith('7');
			const payload = isHostile ? `{"html": "<script>alert(4)</script>", "rtl": "\u202eabc", "big": 12345678901234567890.10, "list": [1, 2, {"a": []}]}` : '{"to": "ann@example.org", "subject": "Welcome", "total": 9007199254740993, "items": [1, 2, 3], "nested": {"empty": {}, "flag": true}}';
			return {
				job: { ...row, last_error: errors[2] }, explanation: [{ step: dead ? 'dead' : 'concurrency', detail: 'all 20 slots are in use by jobs 31, 32, 33 ...' }, { step: 'failed before', detail: `2 attempts have failed: ${errors[0].slice(0, 200)}` }],
				attempts: [1, 2].map((attempt) => ({ attempt, lease: null, claimed_at: iso(4000 - attempt * 1000), ended_at: iso(3988 - attempt * 1000), outcome: attempt === 1 ? 'lost' : 'failed', worker: 'worker-1@host2', reason: null, error: errors[attempt] })),
				parents: [{ parent_id: '881', child_id: id, ref: 'fetch', on_failure: 1 }], children: [{ parent_id: id, child_id: '995', ref: 'notify', on_failure: 2 }], batch: { batch: '17', state: 'open' },
				steps: [{ step: 'charged', value: '{"ok": true}', kept_at: iso(1000) }], headers: '{"trace": "00-4bf92f-01"}', result: null, progress: '{"percent": 40}',
				payload: hidePayload || (big && !full) ? null : big ? JSON.stringify({ text: 'lorem <b> '.repeat(100000) }) : payload, payload_bytes: big ? '1000011' : String(payload.length),
				timeline: [{ at: iso(5000), what: 'enqueued', detail: null }, { at: iso(3000), what: 'claimed', detail: 'attempt 1, worker-1@host2' }, { at: iso(2988), what: 'lost', detail: 'the lease has ended' },
					{ at: iso(2000), what: 'claimed', detail: 'attempt 2' }, { at: iso(1988), what: 'failed', detail: errors[0] }], notes: [],
			};
		},
		dead({ by, queue, after }) {
			const letters = isEmpty ? [] : Array.from({ length: 250 }, (_, n) => letter(n)).map((row) => ({ ...row, queue: queue ?? row.queue }));
			if (by === 'error') return { rows: isEmpty ? [] : errors.map((error, i) => ({ error, jobs: String(200 - i * 30), first: iso(90000), last: iso(i * 900 + 5), sample_id: String(500000 + i) })), more: false, searched: '10000', notes: [] };
			const from = Number(after ?? 0);
			return { rows: letters.slice(from, from + 100), more: from + 100 < letters.length, after: String(from + 100), notes: [] };
		},
		schedules: () => list([
			{ schedule: names[0], cron: '0 3 * * *', timezone: 'Europe/Berlin', queue: names[1], paused: false, next_run_at: iso(-9000), last_run_at: iso(77000), last_job_id: '771', last_error: null },
			{ schedule: 'hourly report', cron: '0 * * * *', timezone: 'UTC', queue: names[0], paused: true, next_run_at: null, last_run_at: iso(7000), last_job_id: '772', last_error: errors[0] }]),
		handlers: () => list(handlers()),
		batches: () => list([
			{ batch: '17', total: '200', waiting: '90', leased: '10', acked: '97', dead: '3', cancelled: '0', expired: '0', deleted: '0', state: 'open', created_at: iso(500), closed_at: null, finished_at: null, maker: 'app', last_error: null },
			{ batch: '16', total: '9007199254740993', acked: '9007199254740993', dead: '0', cancelled: '0', expired: '0', deleted: '0', state: 'finished', created_at: iso(5000), closed_at: iso(4900), finished_at: iso(100), maker: 'app', last_error: errors[0] }]),
		locks: () => list([{ name: names[0], slot: 1, slots: 1, owner: 'deploy@host1', pid: 4711, acquired_at: iso(12), expires_at: iso(-18), session_bound: true, waiting: 3, in_transaction: false }]),
		rates: () => list([{ name: names[0], permits: 100, period: 60, burst: 100, available: 37, next_at: iso(-1) }, { name: 'sms', permits: 5, period: 1, burst: 5, available: null, next_at: null }]),
	};

	function withoutRates({ enqueued_rate, acked_rate, failed_rate, ...row }) {
		return row;
	}

	function list(rows) {
		return { rows: isEmpty ? [] : rows, more: false, notes: [] };
	}

	function handlers() {
		return [{ queue: names[1], handler: 'app.send(pgq_ext.claimed_job)', run_as: 'app', workers: 4, running: 2, batch: 1, timeout: 60, state: 'active', reason: null, since: null, next_try_at: null, calls: '88123', failures: '12', last_error: errors[0] },
			{ queue: names[3], handler: 'app.bill(pgq_ext.claimed_job)', run_as: 'billing', workers: 1, running: 0, batch: 1, timeout: 60, state: 'suspended', reason: 'function app.bill(pgq_ext.claimed_job) does not exist', since: iso(600), next_try_at: iso(-60), calls: '3', failures: '0', last_error: null }];
	}
}
