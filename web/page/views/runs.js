// Named runs: work that pgq_run_once lets one process do in each period.
import { ago, count, duration } from '../lib/format.js';
import { listView } from '../lib/listview.js';
import { badge, name, plain } from '../lib/parts.js';
import { numberColumn } from '../lib/table.js';

const columns = [
	{ title: 'Run', class: 'wide', value: (row) => row.name, cell: (row) => name(row.name, 100) },
	{
		title: 'State',
		value: (row) => (row.finished_at ? 'finished' : 'started'),
		cell: (row) => badge(row.finished_at ? 'finished' : 'started'),
	},
	{
		title: 'Period',
		class: 'number',
		value: (row) => row.period,
		cell: (row) => (typeof row.period === 'number' ? duration(row.period) : 'once'),
	},
	{
		title: 'Owner',
		value: (row) => row.owner,
		cell: (row) => (row.owner ? name(row.owner, 60) : '–'),
	},
	numberColumn('Tries', (row) => row.tries, count),
	{ title: 'Started', value: (row) => row.started_at, cell: (row) => ago(row.started_at) },
	{ title: 'Finished', value: (row) => row.finished_at, cell: (row) => ago(row.finished_at) },
	{
		title: 'Result',
		class: 'wide',
		has: (row) => row.result,
		cell: (row) => plain(row.result),
	},
];

export const { title, load, draw } = listView({
	name: 'Named runs',
	noun: ['run', 'runs'],
	path: 'runs',
	columns,
	key: (row) => JSON.stringify([row.name, row.period_start]),
	text: (row) => `${row.name} ${row.owner ?? ''}`,
	none: [
		'There are no named runs that you may see.',
		"A program begins one with SELECT pgq_run_once('report', '1 day').",
	],
});
