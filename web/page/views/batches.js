// Batches: their states, and the numbers of their members if the server sends them.
import { h } from '../lib/dom.js';
import { ago, count } from '../lib/format.js';
import { actionButton } from '../lib/actions.js';
import { listView } from '../lib/listview.js';
import { badge, link, name } from '../lib/parts.js';

function progress(row) {
	if (row.total === null || row.total === undefined) return '–';
	const ended = ['acked', 'cancelled', 'expired', 'deleted'].reduce(
		(total, member) => total + BigInt(row[member] ?? 0),
		0n,
	);
	const total = BigInt(row.total);
	const bar = h('progress', {
		max: 1000,
		value: total > 0n ? String((ended * 1000n) / total) : 0,
		'aria-label': 'ended members',
	});
	return [
		bar,
		` ${count(String(ended))} of ${count(row.total)}`,
		row.dead > 0 ? [' ', badge(`${count(row.dead)} dead`, 'bad')] : null,
	];
}

const columns = [
	{
		title: 'Batch',
		value: (row) => row.batch,
		cell: (row) => link('/batches', { batch: row.batch }, String(row.batch)),
	},
	{
		title: 'State',
		value: (row) => row.state,
		cell: (row) => [
			badge(row.state),
			row.failed_at ? [' ', badge('failed')] : null,
			row.cancelled_at ? [' ', badge('cancelled')] : null,
		],
	},
	{ title: 'Members ended', has: (row) => row.total, cell: progress },
	{ title: 'Created', value: (row) => row.created_at, cell: (row) => ago(row.created_at) },
	{
		title: 'Closed',
		value: (row) => row.closed_at,
		cell: (row) => (row.closed_at ? ago(row.closed_at) : '–'),
	},
	{
		title: 'Finished',
		value: (row) => row.finished_at,
		cell: (row) => (row.finished_at ? ago(row.finished_at) : '–'),
	},
	{
		title: 'Maker',
		value: (row) => row.maker,
		cell: (row) => (row.maker ? name(row.maker, 40) : '–'),
	},
	{
		title: 'Error of a callback',
		class: 'wide',
		has: (row) => row.last_error,
		value: (row) => row.last_error,
		cell: (row) => (row.last_error ? name(row.last_error, 300) : '–'),
	},
	{
		title: '',
		class: 'buttons',
		cell: (row) =>
			row.state === 'finished'
				? ''
				: [
						row.state === 'open'
							? actionButton('close_batch', row.batch, 'Close', { small: true })
							: null,
						actionButton('cancel_batch', row.batch, 'Cancel', {
							small: true,
							danger: true,
						}),
					],
	},
];

export const { title, load, draw } = listView({
	name: 'Batches',
	noun: ['batch', 'batches'],
	path: 'batches',
	asked: ({ batch }) => ({ batch }), // only the answer about one batch has the numbers of its members
	aside: ({ batch }) => (batch ? link('/batches', {}, 'All batches') : null),
	columns,
	key: (row) => row.batch,
	text: (row) => `${row.batch} ${row.state} ${row.maker ?? ''} ${row.last_error ?? ''}`,
	none: [
		'There are no batches that you may see.',
		'You see batches of roles of which you are a member. pgq_create_batch() creates one.',
	],
});
