// Canned answers in the form of the contract between pgq-web and its page.
import { iso, makeRows, noise } from './rows.mjs';
import { makeLists } from './lists.mjs';

export function makeData(options) {
	const rowsOfKind = makeRows(options);
	const { names, paused, errors, isHostile, isEmpty, status, job, letter, handlers } = rowsOfKind;
	const { hidePayload } = options;

	return {
		names,
		paused,
		health: () => ({
			health: isEmpty
				? [{ check: 'library', status: 'ok', detail: 'version 0.2', hint: null }]
				: [
						{
							check: 'unclaimed',
							status: 'fail',
							detail: `queue "${names[0]}": jobs wait, and nobody has claimed for 12 minutes`,
							hint: 'Start workers for the queue.',
						},
						{
							check: 'paused',
							status: 'warn',
							detail: `queue "${names[2] ?? ''}" has been paused for 3 hours`,
							hint: 'Call pgq_resume_queue, unless the pause is intended.',
						},
						...[
							'library',
							'scheduler',
							'duties',
							'capacity',
							'rotation',
							'snapshots',
							'depth',
							'rates',
						].map((check) => ({
							check,
							status: 'ok',
							detail: 'nothing to report',
							hint: null,
						})),
					],
			notes: [],
		}),
		overview({ find = '', sort = 'queue', limit = 200 }) {
			const all = names
				.map(status)
				.filter(({ queue }) => queue.toLowerCase().includes(find.toLowerCase()));
			if (sort === 'queue') all.sort((a, b) => (a.queue < b.queue ? -1 : 1));
			else all.sort((a, b) => Number(b[sort]) - Number(a[sort]));
			const total = (name) =>
				String(names.map(status).reduce((sum, row) => sum + BigInt(row[name]), 0n));
			return {
				queues: all.slice(0, Number(limit)),
				more: all.length > Number(limit),
				notes: isHostile ? ['role <i>monitor</i> may not read payload of pgq_ext.job'] : [],
				totals: {
					queues: String(names.length),
					paused: String(paused.size),
					...Object.fromEntries(
						['ready', 'scheduled', 'blocked', 'leased', 'dead'].map((name) => [
							name,
							total(name),
						]),
					),
				},
			};
		},
		history() {
			const n = isEmpty ? 0 : 360;
			const times = Array.from({ length: n }, (_, i) => iso((n - i) * 10));
			const line = (seed, scale) =>
				times.map((_, i) =>
					i > 200 && i < 215
						? null
						: scale * (1 + Math.sin(i / 40 + seed) / 2 + noise(i + seed) / 4),
				);
			return {
				times,
				enqueued: line(1, 80),
				claimed: line(2, 75),
				acked: line(2, 70),
				failed: line(4, 2),
				died: line(5, 0.1),
				ready: line(6, 1200),
				wait_p50: line(7, 0.08),
				wait_p95: line(8, 0.4),
				run_p50: line(9, 0.012),
				run_p95: line(10, 0.09),
				notes: [],
			};
		},
		queue({ name }) {
			if (!names.includes(name)) return null;
			const i = names.indexOf(name);
			return {
				queue: {
					...withoutRates(status(name, i)),
					paused_at: paused.has(name) ? iso(9000) : null,
					lease_time: 300,
					max_runtime: 0,
					max_attempts: 20,
					backoff_base: 1,
					backoff_max: 3600,
					backoff_jitter: 0.2,
					concurrency: 20,
					rate_limit: 0,
					rate_period: 1,
					group_rate_limit: 0,
					group_concurrency: 2,
					fifo: false,
					fair: true,
					max_depth: '1000000',
					log_attempts: 'failed',
					keep_attempts: 604800,
					keep_finished: 86400,
					keep_dead: 2592000,
					notify: true,
				},
				stats: {
					queue: name,
					stats_since: iso(86400),
					enqueued: '9007199254740993',
					claims: '88123',
					empty_claims: '301',
					handed_out: '1203345',
					acked: '1203001',
					failed: '231',
					lost: '3',
					dead_lettered: '12',
					wait_p50: 0.08,
					wait_p95: 0.41,
					run_p50: 0.012,
					run_p95: 0.09,
				},
				handler: i === 1 ? handlers()[0] : null,
				bindings: [
					{
						pattern: 'order.*.created',
						queue: name,
						when_full: 'error',
						created_at: iso(5e6),
						maker: 'app',
					},
				],
				watches: [],
				schedules: [],
				groups: [
					{ group_key: 'customer 3', leased: '2' },
					{ group_key: 'customer 5', leased: '1' },
				],
				waits_for: [
					{ waits_for: 'a worker: nobody claims', jobs: '71' },
					{ waits_for: 'group "customer 3": 2 of 2 jobs in work', jobs: '22' },
					{ waits_for: 'its run_at', jobs: '7' },
				],
				latency: [],
				notes: [],
			};
		},
		jobs({ queue, state, after, error, payload }) {
			const from = Number(after ?? 0);
			const rows = isEmpty
				? []
				: Array.from({ length: 1000 }, (_, n) => job(n))
						.filter((row) => !state || row.state === state)
						.map((row) => ({ ...row, queue: queue ?? row.queue }));
			return {
				rows: rows.slice(from, from + 100),
				more: rows.length > from + 100,
				after: rows.length > from + 100 ? String(from + 100) : null,
				searched: error || payload ? '10000' : null,
				notes: [],
			};
		},
		job({ id, full }) {
			if (isEmpty || id === '1')
				return {
					job: { where: null },
					explanation: [{ step: 'unknown', detail: `there is no trace of job ${id}` }],
					attempts: [],
					parents: [],
					children: [],
					batch: null,
					steps: [],
					timeline: [],
					notes: [],
				};
			const dead = Number(id) >= 500000 && Number(id) < 600000;
			const row = dead
				? {
						...letter(0),
						where: 'dead',
						enqueued_at: iso(5000),
						run_at: iso(5000),
						max_attempts: 20,
						priority: 0,
					}
				: { ...job(Number(BigInt(id) % 1000n)), where: 'live' };
			const big = id.endsWith('7');
			const payload = isHostile
				? `{"html": "<script>alert(4)</script>", "rtl": "\u202eabc", "big": 12345678901234567890.10, "list": [1, 2, {"a": []}]}`
				: '{"to": "ann@example.org", "subject": "Welcome", "total": 9007199254740993, "items": [1, 2, 3], "nested": {"empty": {}, "flag": true}}';
			return {
				job: { ...row, last_error: errors[2] },
				explanation: [
					{
						step: dead ? 'dead' : 'concurrency',
						detail: 'all 20 slots are in use by jobs 31, 32, 33 ...',
					},
					{
						step: 'failed before',
						detail: `2 attempts have failed: ${errors[0].slice(0, 200)}`,
					},
				],
				attempts: [1, 2].map((attempt) => ({
					attempt,
					lease: null,
					claimed_at: iso(4000 - attempt * 1000),
					ended_at: iso(3988 - attempt * 1000),
					outcome: attempt === 1 ? 'lost' : 'failed',
					worker: 'worker-1@host2',
					reason: null,
					error: errors[attempt],
				})),
				parents: [{ parent_id: '881', child_id: id, ref: 'fetch', on_failure: 1 }],
				children: [{ parent_id: id, child_id: '995', ref: 'notify', on_failure: 2 }],
				batch: { batch: '17', state: 'open' },
				steps: [{ step: 'charged', value: '{"ok": true}', kept_at: iso(1000) }],
				headers: '{"trace": "00-4bf92f-01"}',
				result: null,
				progress: '{"percent": 40}',
				payload:
					hidePayload || (big && !full)
						? null
						: big
							? JSON.stringify({ text: 'lorem <b> '.repeat(100000) })
							: payload,
				payload_bytes: big ? '1000011' : String(payload.length),
				timeline: [
					{ at: iso(5000), what: 'enqueued', detail: null },
					{ at: iso(3000), what: 'claimed', detail: 'attempt 1, worker-1@host2' },
					{ at: iso(2988), what: 'lost', detail: 'the lease has ended' },
					{ at: iso(2000), what: 'claimed', detail: 'attempt 2' },
					{ at: iso(1988), what: 'failed', detail: errors[0] },
				],
				notes: [],
			};
		},
		dead({ by, queue, after }) {
			const letters = isEmpty
				? []
				: Array.from({ length: 250 }, (_, n) => letter(n)).map((row) => ({
						...row,
						queue: queue ?? row.queue,
					}));
			if (by === 'error')
				return {
					rows: isEmpty
						? []
						: errors.map((error, i) => ({
								error,
								jobs: String(200 - i * 30),
								first: iso(90000),
								last: iso(i * 900 + 5),
								sample_id: String(500000 + i),
							})),
					more: false,
					searched: '10000',
					notes: [],
				};
			const from = Number(after ?? 0);
			return {
				rows: letters.slice(from, from + 100),
				more: from + 100 < letters.length,
				after: String(from + 100),
				notes: [],
			};
		},
		...makeLists(rowsOfKind),
	};

	function withoutRates({ enqueued_rate, acked_rate, failed_rate, ...row }) {
		return row;
	}
}
