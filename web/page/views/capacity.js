// The limits of shared memory, of the whole server, and how much of each is in use.
import { h } from '../lib/dom.js';
import { bytes, count } from '../lib/format.js';
import { listView } from '../lib/listview.js';
import { name } from '../lib/parts.js';
import { numberColumn } from '../lib/table.js';

const share = ({ used, bound }) => (Number(bound) > 0 ? Number(used ?? 0) / Number(bound) : 0);

const columns = [
	{ title: 'Limit of', class: 'wide', value: (row) => row.name, cell: (row) => name(row.name) },
	{
		title: 'In use',
		value: share,
		cell: (row) =>
			h('progress', {
				max: 1000,
				value: Math.round(share(row) * 1000),
				'aria-label': `${count(row.used)} of ${count(row.bound)}`,
			}),
	},
	numberColumn('Used', (row) => row.used, count),
	numberColumn('Most', (row) => row.peak, count),
	numberColumn('Limit', (row) => row.bound, count),
	{
		title: 'Setting',
		value: (row) => row.guc,
		cell: (row) => (row.guc ? h('code', null, name(row.guc, 80)) : '–'),
	},
	{
		title: 'Memory of one more',
		class: 'number',
		value: (row) => row.entry_bytes,
		cell: (row) => (row.entry_bytes ? bytes(row.entry_bytes) : '–'),
	},
];

export const { title, load, draw } = listView({
	name: 'Capacity',
	noun: ['limit', 'limits'],
	path: 'capacity',
	columns,
	key: (row) => row.name,
	text: (row) => `${row.name} ${row.guc ?? ''}`,
	none: ['Your role may not read the limits.', 'A member of pg_monitor may.'],
});
