// Named rates, and the permits that can be taken now.
import { h } from '../lib/dom.js';
import { ago, count, duration } from '../lib/format.js';
import { listView } from '../lib/listview.js';
import { name } from '../lib/parts.js';
import { numberColumn } from '../lib/table.js';

const columns = [
	{ title: 'Rate', class: 'wide', value: (row) => row.name, cell: (row) => name(row.name, 100) },
	{
		title: 'Allows',
		value: (row) => row.permits,
		cell: (row) => `${count(row.permits)} in ${duration(row.period)}`,
	},
	numberColumn('Burst', (row) => row.burst, count),
	{
		title: 'Available',
		class: 'number',
		value: (row) => row.available,
		cell: (row) =>
			row.available === null || row.available === undefined
				? h(
						'span',
						{
							class: 'zero',
							title: 'The rate was not used since the start of the server.',
						},
						'not in use',
					)
				: count(row.available),
	},
	{
		title: 'Next permit',
		value: (row) => row.next_at,
		cell: (row) => (row.next_at ? ago(row.next_at) : '–'),
	},
];

export const { title, load, draw } = listView({
	name: 'Rates',
	noun: ['rate', 'rates'],
	path: 'rates',
	columns,
	key: (row) => row.name,
	text: (row) => row.name,
	none: [
		'There are no named rates.',
		"Create one with SELECT pgq_create_rate('sms', 100, '1 min').",
	],
});
