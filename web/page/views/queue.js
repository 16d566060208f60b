// One queue: depth, ages, latency over time, what its jobs wait for, limits, and its handler.
import { h } from '../lib/dom.js';
import { get, readHistory, session } from '../lib/api.js';
import { chart } from '../lib/chart.js';
import { histogram } from '../lib/histogram.js';
import { ago, count, duration, isZero, plural } from '../lib/format.js';
import { actionButton, readOnlyBadge } from '../lib/actions.js';
import { badge, empty, facts, heading, link, name, notes, panel, plain } from '../lib/parts.js';
import { numberColumn, table } from '../lib/table.js';
import { rowsOf, STATUS } from '../lib/answers.js';
import { brief } from '../lib/text.js';
import { rateCharts } from './overview.js';

export const title = ({ params }) => `Queue ${brief(params.name, 60)}`;

export async function load({ params }, signal) {
	const [answer, history] = await Promise.all([
		get('queue', { name: params.name, latency: 1 }, signal),
		readHistory(params.name, signal),
	]);
	return { answer, history };
}

// rights: those of the role on this queue; undefined: not known.
function actions(queue, status, rights) {
	const has = (right) => !session.role || !rights || rights.includes(right);
	return [
		readOnlyBadge(),
		has('enqueue') ? actionButton('enqueue', queue, 'Enqueue') : null,
		!has('admin')
			? null
			: [
					status.paused
						? actionButton('resume_queue', queue, 'Resume')
						: actionButton('pause_queue', queue, 'Pause'),
					isZero(status.dead)
						? null
						: actionButton('redrive', { queue, count: status.dead }, 'Redrive all'),
					actionButton('purge_queue', queue, 'Purge', { danger: true }),
				],
	];
}

function depth(queue, status) {
	const jobs = (state, value) => link('/jobs', { queue, state }, count(value));
	return panel(
		'Jobs',
		link('/jobs', { queue }, 'All jobs'),
		facts(
			[
				['Ready', jobs('ready', status.ready)],
				['Scheduled', jobs('scheduled', status.scheduled)],
				['Blocked', jobs('blocked', status.blocked)],
				['In work', jobs('leased', status.leased)],
				['Dead', link('/dead', { queue, by: 'error' }, count(status.dead))],
				['Depth', status.depth === undefined ? undefined : count(status.depth)],
				['Oldest ready job', duration(status.oldest_ready_age)],
				['Claims that wait', count(status.waiting_claims)],
				['Last claim', status.last_claim_at ? ago(status.last_claim_at) : '–'],
				['Paused since', status.paused_at ? ago(status.paused_at) : undefined],
			],
			{ short: true },
		),
	);
}

function latencyCharts(history, counted) {
	const lines = (phase) =>
		['p50', 'p95'].map((part) => ({ name: part, values: history[`${phase}_${part}`] }));
	if (!history.times && !counted.length) return null;
	const one = (heading, phase) =>
		panel(
			heading,
			null,
			chart({
				label: heading,
				times: history.times ?? [],
				write: duration,
				series: lines(phase),
			}),
			histogram(
				heading,
				counted.filter((row) => row.phase === phase),
			),
		);
	return h(
		'div',
		{ class: 'charts' },
		one('Waiting time of jobs', 'wait'),
		one('Running time of jobs', 'run'),
	);
}

// Jobs that wait behind 1, 2, 3 ... others have one line. The reason of most jobs comes first.
function reasons(rows) {
	const jobs = new Map();
	for (const row of rows) {
		const text = row.waits_for ?? 'nothing: in work';
		const reason = /^behind \d+ jobs?$/.test(text) ? 'other jobs that are handed out first' : text;
		jobs.set(reason, (jobs.get(reason) ?? 0n) + BigInt(row.jobs));
	}
	return [...jobs].sort((a, b) => (a[1] === b[1] ? 0 : a[1] > b[1] ? -1 : 1));
}

const REASONS = 8; // that are shown at first

function waits(queue, rows) {
	if (!rows.length) return panel('What the jobs wait for', null, empty('No job waits.'));
	const list = reasons(rows);
	const item = ([reason, jobs]) =>
		h('li', { key: reason }, h('b', null, count(String(jobs))), ' ', name(reason));
	const rest = list.slice(REASONS);
	return panel(
		'What the jobs wait for',
		'first 100 jobs',
		h('ul', { class: 'reasons' }, list.slice(0, REASONS).map(item)),
		rest.length
			? h(
					'details',
					null,
					h('summary', null, `Show ${plural(rest.length, 'other reason')}`),
					h('ul', { class: 'reasons' }, rest.map(item)),
				)
			: null,
	);
}

// Options in which 0 means that there is no limit.
const UNLIMITED = new Set([
	'concurrency',
	'rate_limit',
	'group_rate_limit',
	'group_concurrency',
	'max_depth',
	'max_runtime',
]);
const SECONDS = new Set([
	'lease_time',
	'max_runtime',
	'backoff_base',
	'backoff_max',
	'rate_period',
	'keep_attempts',
	'keep_finished',
	'keep_dead',
]);

function option(term, value) {
	if (UNLIMITED.has(term) && Number(value) === 0) return h('span', { class: 'zero' }, 'no limit');
	if (typeof value === 'boolean') return value ? 'yes' : 'no';
	if (SECONDS.has(term) && typeof value === 'number') return duration(value);
	return /^\d+$/.test(value) ? count(value) : plain(value);
}

function limits(options) {
	const pairs = Object.entries(options ?? {}).filter(([term]) => !STATUS.has(term));
	return panel(
		'Limits and options',
		null,
		pairs.length
			? facts(pairs.map(([term, value]) => [term, option(term, value)]))
			: empty('Your role may not read the options.'),
	);
}

function counters(stats) {
	const pairs = Object.entries(stats ?? {}).filter(
		([term]) => !/^queue$|stats_since|_p\d\d$/.test(term),
	);
	if (!pairs.length) return null;
	return panel(
		'Counters',
		stats.stats_since ? ['since ', ago(stats.stats_since)] : null,
		facts(pairs.map(([term, value]) => [term.replace(/_/g, ' '), count(value)])),
	);
}

// A table of rows of any columns.
function anyTable(label, rows, state, redraw) {
	if (!rows?.length) return null;
	const columns = Object.keys(rows[0]).map((column) => {
		const value = (row) => row[column];
		const isNumber =
			/^-?\d+$/.test(rows[0][column] ?? '') || typeof rows[0][column] === 'number';
		if (isNumber) return numberColumn(column.replace(/_/g, ' '), value, count);
		return { title: column.replace(/_/g, ' '), value, cell: (row) => plain(row[column]) };
	});
	state[label] ??= {};
	return panel(label, null, table(columns, rows, state[label], redraw, { label }));
}

function handler(queue, row) {
	if (!row) return null;
	const button =
		row.state === 'paused'
			? actionButton('resume_handler', queue, 'Resume', { small: true })
			: actionButton('pause_handler', queue, 'Pause', { small: true });
	return panel(
		'Handler',
		button,
		facts([
			['Function', name(row.handler)],
			['State', badge(row.state)],
			['Runs as', name(row.run_as)],
			['Workers', `${count(row.running)} of ${count(row.workers)}`],
			['Calls', count(row.calls)],
			['Failures', count(row.failures)],
			['Reason', row.reason ? name(row.reason, 400) : undefined],
			['Last error', row.last_error ? name(row.last_error, 400) : undefined],
		]),
	);
}

export function draw({ answer, history }, { params, state, redraw }) {
	const queue = params.name;
	const status = answer.queue ?? {};
	return [
		heading(
			[
				h('span', { class: 'quiet' }, 'Queue '),
				name(queue, 80),
				' ',
				status.paused ? badge('paused') : null,
			],
			actions(queue, status, answer.rights),
		),
		notes([...(answer.notes ?? []), ...(history.notes ?? [])]),
		h(
			'div',
			{ class: 'columns' },
			depth(queue, status),
			waits(queue, rowsOf(answer.waits_for)),
		),
		rateCharts(history),
		latencyCharts(history, rowsOf(answer.latency)),
		handler(queue, answer.handler),
		anyTable('Groups', answer.groups, state, redraw),
		limits(status),
		counters(answer.stats),
		anyTable('Topics that lead here', answer.bindings, state, redraw),
		anyTable('Watched tables', answer.watches, state, redraw),
		anyTable('Schedules', answer.schedules, state, redraw),
	];
}
