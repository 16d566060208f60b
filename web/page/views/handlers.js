// Handlers: functions in the database that run the jobs of a queue.
import { ago, count } from '../lib/format.js';
import { actionButton } from '../lib/actions.js';
import { listView } from '../lib/listview.js';
import { badge, name, queueLink } from '../lib/parts.js';
import { numberColumn } from '../lib/table.js';

const columns = [
	{ title: 'Queue', value: (row) => row.queue, cell: (row) => queueLink(row.queue) },
	{
		title: 'State',
		value: (row) => row.state,
		cell: (row) => [badge(row.state), row.since ? [' ', ago(row.since)] : null],
	},
	{
		title: 'Workers',
		class: 'number',
		value: (row) => row.running,
		cell: (row) => `${count(row.running)} of ${count(row.workers)}`,
	},
	numberColumn('Calls', (row) => row.calls, count),
	numberColumn('Failed', (row) => row.failures, count),
	{
		title: 'Function',
		class: 'wide',
		value: (row) => row.handler,
		cell: (row) => name(row.handler, 100),
	},
	{ title: 'Runs as', value: (row) => row.run_as, cell: (row) => name(row.run_as, 40) },
	{
		title: 'Next call',
		has: (row) => row.next_try_at,
		value: (row) => row.next_try_at,
		cell: (row) => (row.next_try_at ? ago(row.next_try_at) : '–'),
	},
	{
		title: 'Reason or error',
		class: 'wide',
		cell: (row) =>
			(row.reason ?? row.last_error) ? name(row.reason ?? row.last_error, 300) : '–',
	},
	{
		title: '',
		class: 'buttons',
		cell: (row) =>
			row.state === 'paused'
				? actionButton('resume_handler', row.queue, 'Resume', { small: true })
				: actionButton('pause_handler', row.queue, 'Pause', { small: true }),
	},
];

export const { title, load, draw } = listView({
	name: 'Handlers',
	noun: ['handler', 'handlers'],
	path: 'handlers',
	columns,
	key: (row) => row.queue,
	text: (row) => `${row.queue} ${row.handler} ${row.reason ?? ''}`,
	none: [
		'There are no handlers.',
		"Set one with SELECT pgq_set_handler('mail', 'send_mail(pgq_ext.claimed_job)').",
	],
});
