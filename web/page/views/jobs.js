// A list of jobs, with filters that are part of the address.
import { h } from '../lib/dom.js';
import { get } from '../lib/api.js';
import { ago, count, plural } from '../lib/format.js';
import { address, go, jobPath } from '../lib/router.js';
import {
	badge,
	empty,
	heading,
	jobLink,
	link,
	name,
	notes,
	panel,
	payloadButton,
	queueLink,
} from '../lib/parts.js';
import { moreButton as more, numberColumn, table } from '../lib/table.js';
import { rowsOf } from '../lib/answers.js';
import { brief } from '../lib/text.js';
import { arePayloadsHidden } from '../lib/settings.js';

const FILTERS = [
	{ name: 'id', label: 'Job id', inputmode: 'numeric' },
	{ name: 'queue', label: 'Queue' },
	{ name: 'state', label: 'State', options: ['ready', 'scheduled', 'blocked', 'leased'] },
	{ name: 'group', label: 'Group key' },
	{ name: 'key', label: 'Unique key' },
	{ name: 'error', label: 'Error contains' },
	{ name: 'payload', label: 'Payload contains (JSON)' },
];
const WORDS = { leased: 'in work' };

export const title = ({ query }) => (query.queue ? `Jobs of ${brief(query.queue, 60)}` : 'Jobs');

// A search without an index reads up to 10,000 rows, so it runs only when the reader asks for it.
export const isLive = ({ query }) => !query.group && !query.key && !query.error && !query.payload;

function asked(query) {
	return Object.fromEntries(FILTERS.map((filter) => [filter.name, query[filter.name]?.trim()]));
}

export async function load(view, signal) {
	const { query, state } = view;
	const key = JSON.stringify(asked(query));
	if (state.key !== key) Object.assign(state, { key, older: [] });
	if (!query.queue && !query.id) {
		const overview = await get('overview', { limit: 200, sort: query.state }, signal);
		return { answer: null, queues: overview.queues ?? [] };
	}
	return { answer: await get('jobs', { ...asked(query), limit: 100 }, signal) };
}

function field(filter, query) {
	const id = 'filter-' + filter.name;
	const value = query[filter.name] ?? '';
	const control = filter.options
		? h(
				'select',
				{ id, name: filter.name },
				h('option', { value: '' }, 'any'),
				filter.options.map((option) =>
					h(
						'option',
						{ value: option, selected: option === value },
						WORDS[option] ?? option,
					),
				),
			)
		: h('input', {
				id,
				name: filter.name,
				value,
				type: 'search',
				inputmode: filter.inputmode,
				autocomplete: 'off',
				spellcheck: 'false',
				'data-search': filter.name === 'id',
			});
	return h('div', { class: 'field' }, h('label', { for: id }, filter.label), control);
}

// The key is the present search, so that the back button also changes what the fields say.
function filterForm(query) {
	const submit = (event) => {
		event.preventDefault();
		const values = Object.fromEntries(new FormData(event.currentTarget));
		const id = values.id.trim();
		go(/^\d+$/.test(id) ? address(jobPath(id)) : address('/jobs', values));
	};
	const change = (event) => event.target.matches('select') && event.currentTarget.requestSubmit();
	return h(
		'form',
		{
			class: 'filters',
			role: 'search',
			key: 'filters ' + JSON.stringify(query),
			on: { submit, change },
		},
		FILTERS.map((filter) => field(filter, query)),
		h(
			'div',
			{ class: 'actions' },
			h('button', { type: 'submit', class: 'primary' }, 'Search'),
			h('a', { class: 'button', href: address('/jobs') }, 'Clear'),
		),
	);
}

const COLUMNS = [
	{ title: 'Job', value: (row) => row.job_id, cell: (row) => jobLink(row.job_id) },
	{ title: 'Queue', value: (row) => row.queue, cell: (row) => queueLink(row.queue) },
	{
		title: 'State',
		value: (row) => row.state,
		cell: (row) => badge(WORDS[row.state] ?? row.state),
	},
	{
		title: 'Waits for',
		value: (row) => row.waits_for,
		class: 'wide',
		cell: (row) =>
			row.waits_for
				? name(row.waits_for, 120)
				: row.worker
					? ['worker ', name(row.worker, 60)]
					: '–',
	},
	{ title: 'Run at', value: (row) => row.run_at, cell: (row) => ago(row.run_at) },
	{ ...numberColumn('Priority', (row) => row.priority, count), has: (row) => row.priority !== 0 },
	{
		title: 'Attempts',
		value: (row) => row.attempts,
		class: 'number',
		cell: (row) =>
			row.max_attempts
				? `${count(row.attempts)} of ${count(row.max_attempts)}`
				: count(row.attempts),
	},
	{
		title: 'Group',
		value: (row) => row.group_key,
		has: (row) => row.group_key,
		cell: (row) => (row.group_key ? name(row.group_key, 40) : '–'),
	},
	{
		title: 'Last error',
		value: (row) => row.last_error,
		class: 'wide',
		has: (row) => row.last_error,
		cell: (row) => (row.last_error ? name(row.last_error, 120) : '–'),
	},
	{
		title: 'Payload',
		class: 'wide',
		has: (row) => row.payload && !arePayloadsHidden(),
		cell: (row) => h('code', null, brief(row.payload ?? '–', 100)),
	},
];

function moreButton(view, last) {
	return more(
		view,
		last,
		(after) => get('jobs', { ...asked(view.query), limit: 100, after }),
		last.searched ? 'Search on' : 'Read more jobs',
	);
}

function result(answer, view) {
	const { state, redraw, query } = view;
	const seen = new Set();
	const rows = [answer, ...state.older]
		.flatMap(rowsOf)
		.filter(({ job_id }) => !seen.has(job_id) && seen.add(job_id));
	const last = state.older.at(-1) ?? answer;
	const searched = answer.searched
		? h(
				'p',
				{ class: 'quiet' },
				`${plural(searchedBy(answer, state), 'job')} of the queue were searched, because no index serves these filters.`,
			)
		: null;
	if (!rows.length) {
		const hasFilter = Object.values(asked(query)).some(Boolean);
		return [
			searched,
			last.more || last.isLoading
				? moreButton(view, last)
				: hasFilter
					? empty(
							'No job matches.',
							'Change or clear the filters. A job that has ended is kept only if its queue has keep_finished.',
						)
					: empty(
							'There are no jobs that you may see.',
							"Enqueue one on the page of a queue, or with SELECT pgq_enqueue('mail', '{}').",
						),
		];
	}
	const columns = COLUMNS.filter(({ title }) => !(title === 'Queue' && query.queue));
	state.shown = 1e9;
	return [
		searched,
		table(columns, rows, state, redraw, { key: (row) => row.job_id, label: 'Jobs' }),
		last.more || last.isLoading ? moreButton(view, last) : null,
	];
}

// How many rows the pages that are shown have searched.
function searchedBy(answer, state) {
	return [answer, ...state.older].reduce((total, page) => total + BigInt(page.searched ?? 0), 0n);
}

function chooseQueue(queues, { query }) {
	if (!queues.length)
		return empty(
			'There are no queues that you may see.',
			"Create one with SELECT pgq_create_queue('mail').",
		);
	const shown = query.state ?? 'ready';
	return [
		h('p', null, 'Choose a queue, or search for a job by its id.'),
		h(
			'ul',
			{ class: 'choices' },
			queues.map((row) =>
				h(
					'li',
					{ key: row.queue },
					link('/jobs', { ...query, queue: row.queue }, name(row.queue, 60)),
					h(
						'span',
						{ class: 'quiet' },
						row[shown] === undefined
							? ''
							: `${count(row[shown])} ${WORDS[shown] ?? shown}`,
					),
				),
			),
		),
	];
}

export function draw({ answer, queues }, view) {
	if (!answer)
		return [
			heading('Jobs'),
			filterForm(view.query),
			panel('Queues', null, chooseQueue(queues, view)),
		];
	return [
		heading('Jobs', payloadButton(view.redraw)),
		filterForm(view.query),
		notes(answer.notes),
		panel('Found', null, result(answer, view)),
	];
}
