// Dead letters: grouped by their errors, or one by one.
import { h } from '../lib/dom.js';
import { get } from '../lib/api.js';
import { ago, count, plural } from '../lib/format.js';
import { address, go } from '../lib/router.js';
import { actionButton, readOnlyBadge } from '../lib/actions.js';
import { empty, heading, jobLink, link, name, notes, panel, queueLink } from '../lib/parts.js';
import { filtered, filterField, moreButton as more, numberColumn, table } from '../lib/table.js';
import { rowsOf, sum } from '../lib/answers.js';
import { brief } from '../lib/text.js';

export const title = ({ query }) =>
	query.queue ? `Dead letters of ${brief(query.queue, 60)}` : 'Dead letters';

const isGrouped = (query) => query.by !== 'job';

export async function load({ query, state }, signal) {
	const key = JSON.stringify(query);
	if (state.key !== key) Object.assign(state, { key, older: [] });
	const { queue, error, error_is } = query;
	return get(
		'dead',
		isGrouped(query) ? { queue, by: 'error' } : { queue, error, error_is },
		signal,
	);
}

const queueOf = (row, query) => row.queue ?? query.queue;

// What "Redrive" of a group is about. pattern: the one that the server has made, which also fits errors that it has cut.
function groupOf(row, query) {
	return {
		queue: queueOf(row, query),
		error: row.error,
		count: row.jobs,
		pattern: row.error_like
			? { pattern: row.error_like, isWhole: row.error_like_is_exact }
			: undefined,
	};
}

// The columns of errors.
function groupColumns(query) {
	// A long error would make too long an address, and the server has cut it: so dead letters with
	// its beginning are shown.
	const letters = ({ error, queue }) =>
		address('/dead', {
			by: 'job',
			queue: queue ?? query.queue,
			...(error.length > 500 ? { error: error.slice(0, 300) } : { error_is: error }),
		});
	return [
		{
			title: 'Error',
			class: 'wide',
			value: (row) => row.error,
			cell: (row) =>
				row.error ? name(row.error, 300) : h('span', { class: 'quiet' }, 'no error text'),
		},
		{
			title: 'Queue',
			has: (row) => row.queue && !query.queue,
			value: (row) => row.queue,
			cell: (row) => queueLink(row.queue),
		},
		numberColumn('Dead letters', (row) => row.jobs, count),
		{ title: 'First died', value: (row) => row.first, cell: (row) => ago(row.first) },
		{ title: 'Last died', value: (row) => row.last, cell: (row) => ago(row.last) },
		{ title: 'Example', cell: (row) => jobLink(row.sample_id) },
		{
			title: '',
			class: 'buttons',
			cell: (row) =>
				row.error
					? [
							h('a', { class: 'button small', href: letters(row) }, 'Show'),
							queueOf(row, query)
								? actionButton('redrive', groupOf(row, query), 'Redrive', {
										small: true,
									})
								: null,
						]
					: '',
		},
	];
}

const LETTERS = [
	{ title: 'Job', value: (row) => row.job_id, cell: (row) => jobLink(row.job_id) },
	{ title: 'Queue', value: (row) => row.queue, cell: (row) => queueLink(row.queue) },
	{ title: 'Died', value: (row) => row.died_at, cell: (row) => ago(row.died_at) },
	numberColumn('Attempts', (row) => row.attempts, count),
	{
		title: 'Reason',
		value: (row) => row.reason,
		cell: (row) => (row.reason ? name(row.reason, 80) : '–'),
	},
	{
		title: 'Error',
		class: 'wide',
		value: (row) => row.last_error,
		cell: (row) => (row.last_error ? name(row.last_error, 300) : '–'),
	},
	{
		title: '',
		class: 'buttons',
		cell: (row) => [
			actionButton('retry', row.job_id, 'Redrive', { small: true }),
			actionButton('cancel', { id: row.job_id, state: 'dead' }, 'Delete', {
				small: true,
				danger: true,
			}),
		],
	},
];

function moreButton(view, last) {
	const { queue, error, error_is } = view.query;
	return more(
		view,
		last,
		(after) => get('dead', { queue, error, error_is, after }),
		'Read more dead letters',
	);
}

function tabs(query) {
	const tab = (by, label) =>
		h(
			'a',
			{
				href: address('/dead', { queue: query.queue, by }),
				'aria-current': (isGrouped(query) ? 'error' : 'job') === by ? 'true' : null,
			},
			label,
		);
	return h('div', { class: 'tabs' }, tab('error', 'By error'), tab('job', 'One by one'));
}

function queueForm(query) {
	const submit = (event) => {
		event.preventDefault();
		go(address('/dead', { ...query, queue: new FormData(event.currentTarget).get('queue') }));
	};
	return h(
		'form',
		{ class: 'inline', key: 'queue ' + (query.queue ?? ''), on: { submit } },
		h('label', { for: 'dead-queue' }, 'Queue'),
		h('input', {
			id: 'dead-queue',
			name: 'queue',
			type: 'search',
			value: query.queue ?? '',
			autocomplete: 'off',
		}),
		h('button', { type: 'submit' }, 'Show'),
	);
}

// Whether there may be more dead letters than the server has grouped.
function isCut(groups, answer) {
	return BigInt(sum(groups, 'jobs') ?? answer.searched) >= BigInt(answer.searched);
}

function groupsOrLetters(answer, view) {
	const { query, state, redraw } = view;
	const grouped = isGrouped(query);
	const last = state.older.at(-1) ?? answer;
	const all = [answer, ...state.older].flatMap(rowsOf);
	if (!all.length)
		return empty(
			'There are no dead letters that you may see.',
			'A job becomes a dead letter when its last attempt fails.',
		);
	const error = (row) => (grouped ? row.error : row.last_error) ?? '';
	const rows = filtered(all, state, (row) => error(row) + ' ' + (row.queue ?? ''));
	const key = grouped ? (row) => JSON.stringify([row.queue, row.error]) : (row) => row.job_id;
	return [
		rows.length
			? table(grouped ? groupColumns(query) : LETTERS, rows, state, redraw, {
					key,
					label: 'Dead letters',
				})
			: empty('No error has this text.'),
		grouped && answer.searched && isCut(all, answer)
			? h(
					'p',
					{ class: 'quiet' },
					`Only the newest ${plural(answer.searched, 'dead letter')} are counted.`,
				)
			: null,
		grouped && !query.queue && !all[0].queue
			? h('p', { class: 'quiet' }, 'Choose a queue to redrive all dead letters with one error.')
			: null,
		!grouped && (last.more || last.isLoading) ? moreButton(view, last) : null,
	];
}

export function draw(answer, view) {
	const { query, state, redraw } = view;
	const one = query.queue && rowsOf(answer).length;
	return [
		heading(
			'Dead letters',
			readOnlyBadge(),
			one
				? actionButton('redrive', { queue: query.queue }, 'Redrive all of the queue')
				: null,
		),
		notes(answer.notes),
		h('div', { class: 'bar' }, tabs(query), queueForm(query)),
		!isGrouped(query) && (query.error_is ?? query.error)
			? h(
					'p',
					null,
					query.error_is ? 'With the error ' : 'With an error that contains ',
					h('strong', null, name(query.error_is ?? query.error, 300)),
					' ',
					link('/dead', { by: 'job', queue: query.queue }, 'Show all'),
				)
			: null,
		panel(
			isGrouped(query) ? 'By error' : 'One by one',
			filterField(state, redraw, 'Filter errors'),
			groupsOrLetters(answer, view),
		),
	];
}
