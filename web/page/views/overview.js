// The first view: health, totals, rates of the last hour, and all queues.
import { h } from '../lib/dom.js';
import { get, readHistory } from '../lib/api.js';
import { chart } from '../lib/chart.js';
import { count, duration, isZero, plural, rate, rough } from '../lib/format.js';
import { badge, empty, errorBox, heading, link, notes, panel, queueLink } from '../lib/parts.js';
import { numberColumn, table } from '../lib/table.js';
import { rowsOf, sum } from '../lib/answers.js';
import { address, go } from '../lib/router.js';
import { visible } from '../lib/text.js';

export const title = () => 'Overview';

const HEALTH = 10000; // milliseconds between two questions for the checks

// Asks for the checks beside the rest, because they can take seconds with thousands of queues.
async function readHealth({ state, redraw }) {
	if (state.isReading || Date.now() < (state.healthAt ?? 0) + HEALTH) return;
	state.isReading = true;
	try {
		state.health = await get('health');
		state.healthError = null;
	} catch (error) {
		state.healthError = error;
	}
	Object.assign(state, { isReading: false, healthAt: Date.now() });
	redraw();
}

export async function load(view, signal) {
	const { find, sort } = view.query;
	readHealth(view);
	const [overview, history] = await Promise.all([
		get('overview', { limit: 200, find, sort, health: 0 }, signal),
		readHistory('*', signal),
	]);
	return { overview, history };
}

const ORDER = { fail: 0, warn: 1, ok: 2 };

function checkItem(check) {
	return h(
		'li',
		{ key: check.check },
		badge(check.status),
		h(
			'div',
			null,
			h('b', null, check.check),
			' ',
			visible(check.detail ?? ''),
			check.hint && check.status !== 'ok'
				? h('p', { class: 'quiet' }, visible(check.hint))
				: null,
		),
	);
}

function health({ health: answer, healthError }) {
	if (healthError) return panel('Health', null, errorBox(healthError));
	if (!answer) {
		return panel(
			'Health',
			null,
			h('p', { class: 'quiet' }, 'Reading the checks'),
			h('p', null, '\u00a0'),
		);
	}
	const checks = answer.health ?? [];
	const list = [...checks].sort((a, b) => ORDER[a.status] - ORDER[b.status]);
	const bad = list.filter(({ status }) => status !== 'ok');
	const good = list.length - bad.length;
	const worst = bad[0]?.status ?? 'ok';
	const text = !list.length
		? 'No check can be read.'
		: !bad.length
			? `All ${plural(good, 'check')} are ok.`
			: `${plural(bad.length, 'check needs', 'checks need')} attention.`;
	return panel(
		'Health',
		badge(list.length ? worst : null),
		h('p', null, text),
		bad.length ? h('ul', { class: 'checks' }, bad.map(checkItem)) : null,
		good
			? h(
					'details',
					null,
					h('summary', null, `Show the ${plural(good, 'check')} that are ok`),
					h('ul', { class: 'checks' }, list.slice(bad.length).map(checkItem)),
				)
			: null,
	);
}

function tile(label, value, path, query, isBad) {
	return h(
		'a',
		{
			class: 'tile' + (isBad && !isZero(value) ? ' bad' : ''),
			href: link(path, query).getAttribute('href'),
		},
		h('span', { class: 'tile-label' }, label),
		h('span', { class: 'tile-value' }, count(value)),
	);
}

function tiles(totals, queues) {
	const total = (name) => totals?.[name] ?? sum(queues, name);
	return h(
		'div',
		{ class: 'tiles' },
		tile('ready', total('ready'), '/jobs', { state: 'ready' }),
		tile('scheduled', total('scheduled'), '/jobs', { state: 'scheduled' }),
		tile('blocked', total('blocked'), '/jobs', { state: 'blocked' }),
		tile('in work', total('leased'), '/jobs', { state: 'leased' }),
		tile('dead', total('dead'), '/dead', {}, true),
	);
}

// The two charts of rates and depth; the view of a queue shows them too.
export function rateCharts(history) {
	if (!history.times) return null;
	const perSecond = (value) => rough(value);
	return h(
		'div',
		{ class: 'charts' },
		panel(
			'Jobs a second, last hour',
			null,
			chart({
				label: 'Jobs a second',
				times: history.times ?? [],
				write: perSecond,
				series: [
					{ name: 'enqueued', values: history.enqueued },
					{ name: 'handed out', values: history.claimed },
					{ name: 'acked', values: history.acked },
					{ name: 'failed', values: history.failed },
				],
			}),
		),
		panel(
			'Ready jobs, last hour',
			null,
			chart({
				label: 'Ready jobs',
				times: history.times ?? [],
				write: rough,
				series: [{ name: 'ready', values: history.ready }],
			}),
		),
	);
}

const COLUMNS = [
	{
		title: 'Queue',
		value: (row) => row.queue,
		class: 'wide',
		cell: (row) => [queueLink(row.queue), row.paused ? [' ', badge('paused')] : null],
	},
	numberColumn('Ready', (row) => row.ready, count),
	numberColumn('Scheduled', (row) => row.scheduled, count),
	numberColumn('Blocked', (row) => row.blocked, count),
	numberColumn('In work', (row) => row.leased, count),
	{
		title: 'Dead',
		value: (row) => row.dead,
		class: 'number',
		isIdle: (row) => isZero(row.dead),
		cell: (row) =>
			isZero(row.dead)
				? h('span', { class: 'zero' }, count(row.dead))
				: link('/dead', { queue: row.queue, by: 'error' }, count(row.dead)),
	},
	numberColumn(
		'Oldest',
		(row) => row.oldest_ready_age,
		(seconds) => duration(seconds, 2),
	),
	numberColumn('In', (row) => row.enqueued_rate, rate),
	numberColumn('Acked', (row) => row.acked_rate, rate),
	numberColumn('Failed', (row) => row.failed_rate, rate),
	...[
		['Wait p95', 'wait_p95'],
		['Run p95', 'run_p95'],
	].map(([title, member]) => ({
		...numberColumn(
			title,
			(row) => row[member],
			(seconds) => duration(seconds, 2),
		),
		has: (row) => typeof row[member] === 'number',
	})),
];

// The names by which the server sorts. It does so if there are more queues than one answer has.
const SORT = {
	Queue: 'queue',
	Ready: 'ready',
	Scheduled: 'scheduled',
	Blocked: 'blocked',
	'In work': 'leased',
	Dead: 'dead',
	Oldest: 'oldest_ready_age',
};

function findField({ query, state }) {
	const input = (event) => {
		const field = event.target;
		clearTimeout(state.timer);
		state.timer = setTimeout(() => {
			// not if the reader has gone to another view
			if (field.isConnected)
				go(address('/', { ...query, find: field.value }), { replace: true });
		}, 250);
	};
	return h('input', {
		type: 'search',
		class: 'filter',
		placeholder: 'Find queues',
		'aria-label': 'Find queues',
		'data-search': '',
		value: query.find ?? '',
		on: { input },
	});
}

function queueTable(overview, view) {
	const { state, redraw, query } = view;
	const queues = rowsOf(overview.queues);
	if (!queues.length && !query.find) {
		return panel(
			'Queues',
			null,
			empty(
				'There are no queues that you may see.',
				"Create one with SELECT pgq_create_queue('mail'), or log in as a role that may see queues.",
			),
		);
	}
	if (!queues.length)
		return panel('Queues', findField(view), empty('No queue has this text in its name.'));
	const options = { key: (row) => row.queue, label: 'Queues' };
	if (overview.more) {
		state.by = Object.keys(SORT).find((title) => SORT[title] === (query.sort ?? 'queue'));
		state.down = state.by !== 'Queue';
		options.onSort = ({ title }) =>
			title in SORT && go(address('/', { ...query, sort: SORT[title] }), { replace: true });
	}
	const columns = overview.more
		? COLUMNS.map((column) => (column.title in SORT ? column : { ...column, value: undefined }))
		: COLUMNS;
	return panel(
		'Queues',
		findField(view),
		table(columns, queues, state, redraw, options),
		overview.more
			? h(
					'p',
					{ class: 'quiet' },
					`These are ${plural(queues.length, 'queue')}` +
						(overview.totals?.queues ? ` of ${count(overview.totals.queues)}` : '') +
						'. Find others by their names, or sort by a column.',
				)
			: null,
	);
}

export function draw({ overview, history }, view) {
	return [
		heading('Overview'),
		notes([
			...new Set(
				[overview, history, view.state.health ?? {}].flatMap(
					({ notes: list }) => list ?? [],
				),
			),
		]),
		health(view.state),
		tiles(overview.totals, rowsOf(overview.queues)),
		rateCharts(history),
		queueTable(overview, view),
	];
}
