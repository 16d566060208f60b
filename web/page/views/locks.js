// Named locks that are held, and the sessions that wait for them.
import { ago, count } from '../lib/format.js';
import { listView } from '../lib/listview.js';
import { badge, name } from '../lib/parts.js';
import { numberColumn } from '../lib/table.js';

const columns = [
	{ title: 'Lock', class: 'wide', value: (row) => row.name, cell: (row) => name(row.name, 100) },
	{
		title: 'Slot',
		class: 'number',
		value: (row) => row.slot,
		cell: (row) =>
			row.slots > 1 ? `${count(row.slot)} of ${count(row.slots)}` : count(row.slot),
	},
	{
		title: 'Owner',
		value: (row) => row.owner,
		cell: (row) => (row.owner ? name(row.owner, 60) : '–'),
	},
	{
		title: 'Process',
		class: 'number',
		value: (row) => row.pid,
		cell: (row) => (row.pid ? String(row.pid) : '–'),
	},
	{ title: 'Taken', value: (row) => row.acquired_at, cell: (row) => ago(row.acquired_at) },
	{
		title: 'Ends',
		value: (row) => row.expires_at,
		cell: (row) => [
			row.expires_at ? ago(row.expires_at) : '–',
			row.session_bound ? [' ', badge('with its session')] : null,
			row.in_transaction ? [' ', badge('in transaction')] : null,
		],
	},
	numberColumn('Waiting', (row) => row.waiting, count),
];

export const { title, load, draw } = listView({
	name: 'Locks',
	noun: ['lock', 'locks'],
	path: 'locks',
	columns,
	key: (row) => JSON.stringify([row.name, row.slot]),
	text: (row) => `${row.name} ${row.owner ?? ''}`,
	none: ['No named lock is held.', "A program takes one with SELECT pgq_lock('deploy')."],
});
