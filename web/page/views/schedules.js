// Schedules: their next ticks and their errors.
import { ago, at } from '../lib/format.js';
import { h } from '../lib/dom.js';
import { actionButton } from '../lib/actions.js';
import { listView } from '../lib/listview.js';
import { badge, jobLink, name, queueLink } from '../lib/parts.js';

const buttons = (row) => [
	actionButton('run_schedule', row.schedule, 'Run now', { small: true }),
	row.paused
		? actionButton('resume_schedule', row.schedule, 'Resume', { small: true })
		: actionButton('pause_schedule', row.schedule, 'Pause', { small: true }),
];

const columns = [
	{
		title: 'Schedule',
		class: 'wide',
		value: (row) => row.schedule,
		cell: (row) => [name(row.schedule, 80), row.paused ? [' ', badge('paused')] : null],
	},
	{
		title: 'Cron',
		value: (row) => row.cron,
		cell: (row) => [
			h('code', null, name(row.cron)),
			row.timezone && row.timezone !== 'UTC' ? [' ', name(row.timezone)] : null,
		],
	},
	{ title: 'Queue', value: (row) => row.queue, cell: (row) => queueLink(row.queue) },
	{
		title: 'Next tick',
		value: (row) => row.next_run_at,
		cell: (row) =>
			row.next_run_at
				? [at(row.next_run_at), ' ', h('span', { class: 'quiet' }, ago(row.next_run_at))]
				: '–',
	},
	{
		title: 'Last tick',
		value: (row) => row.last_run_at,
		cell: (row) => (row.last_run_at ? ago(row.last_run_at) : '–'),
	},
	{ title: 'Last job', value: (row) => row.last_job_id, cell: (row) => jobLink(row.last_job_id) },
	{
		title: 'Error',
		class: 'wide',
		has: (row) => row.last_error,
		value: (row) => row.last_error,
		cell: (row) => (row.last_error ? name(row.last_error, 300) : '–'),
	},
	{ title: '', class: 'buttons', cell: buttons },
];

export const { title, load, draw } = listView({
	name: 'Schedules',
	noun: ['schedule', 'schedules'],
	path: 'schedules',
	columns,
	key: (row) => row.schedule,
	text: (row) => `${row.schedule} ${row.queue} ${row.last_error ?? ''}`,
	none: [
		'There are no schedules that you may see.',
		"Create one with SELECT pgq_schedule('nightly', '0 3 * * *', 'reports').",
	],
});
