// One job: why it does not run, its time line, attempts, parents and children, payload and result.
import { h } from '../lib/dom.js';
import { get } from '../lib/api.js';
import { ago, at, count, duration } from '../lib/format.js';
import { actionButton, readOnlyBadge } from '../lib/actions.js';
import {
	badge,
	empty,
	facts,
	heading,
	jobLink,
	json,
	name,
	notes,
	panel,
	payloadButton,
	plain,
	queueLink,
} from '../lib/parts.js';
import { say } from '../lib/dialog.js';
import { table } from '../lib/table.js';
import { rowsOf, stateOf } from '../lib/answers.js';
import { visible } from '../lib/text.js';

export const title = ({ params }) => `Job ${params.id}`;

export async function load({ params }, signal) {
	return get('job', { id: params.id }, signal);
}

const WAITING = ['ready', 'scheduled', 'blocked'];
const ENDED = ['acked', 'cancelled', 'expired', 'finished'];

function actions(id, job) {
	const state = stateOf(job);
	const list = [readOnlyBadge()];
	if (WAITING.includes(state) || state === 'dead')
		list.push(actionButton('retry', id, state === 'dead' ? 'Redrive' : 'Run now'));
	if (WAITING.includes(state))
		list.push(
			actionButton('run_at', id, 'Change time'),
			actionButton('priority', { id, priority: job.priority }, 'Change priority'),
		);
	if (state === 'leased') list.push(actionButton('release', id, 'Release'));
	if (ENDED.includes(state)) list.push(actionButton('run_again', id, 'Run again'));
	if (!ENDED.includes(state) && state)
		list.push(
			actionButton('cancel', { id, state }, state === 'dead' ? 'Delete' : 'Cancel', {
				danger: true,
			}),
		);
	return list;
}

function stateBadge(job) {
	const state = stateOf(job);
	return badge(state === 'leased' ? 'in work' : state);
}

function overview(job) {
	const text = (value) => (value === undefined ? undefined : value === null ? null : name(value));
	return panel(
		'Job',
		null,
		facts([
			['Queue', queueLink(job.queue)],
			['State', stateBadge(job)],
			['Priority', count(job.priority)],
			[
				'Attempts',
				`${count(job.attempts)} failed` +
					(job.max_attempts ? ` of ${count(job.max_attempts)}` : ''),
			],
			['Enqueued', at(job.enqueued_at)],
			['Run at', at(job.run_at)],
			['Expires', job.expires_at ? at(job.expires_at) : undefined],
			['Died', job.died_at ? at(job.died_at) : undefined],
			['Ended', job.finished_at ? at(job.finished_at) : undefined],
			['Worker', job.worker ? name(job.worker) : undefined],
			['Process', job.pid ? String(job.pid) : undefined],
			['Claimed', job.claimed_at ? at(job.claimed_at) : undefined],
			['Lease ends', job.lease_expires_at ? ago(job.lease_expires_at) : undefined],
			['Group key', text(job.group_key)],
			['Unique key', text(job.unique_key)],
			['Reason', job.reason ? name(job.reason) : undefined],
		]),
	);
}

function explanation(rows) {
	return panel(
		'Explanation',
		null,
		rows.length
			? h(
					'dl',
					{ class: 'steps' },
					rows.map((row, i) =>
						h(
							'div',
							{ key: i },
							h('dt', null, badge(row.step, 'plain')),
							h('dd', null, visible(row.detail ?? '')),
						),
					),
				)
			: empty('There is no explanation.'),
	);
}

function error(text) {
	return text
		? panel(
				'Last error',
				null,
				h('pre', { class: 'error-message', tabindex: 0 }, visible(text)),
			)
		: null;
}

// A dead letter has the time at which its transaction began, so its death can be dated before the failure that caused it.
function inOrder(list) {
	const out = [...list];
	const death = out.findIndex(({ what }) => what === 'died');
	if (death >= 0 && /^(failed|lost)$/.test(out[death + 1]?.what)) out.push(...out.splice(death, 1));
	return out;
}

function timeLine(events) {
	if (!events.length) return null;
	const list = inOrder(events);
	const item = (event, i) => {
		const gap =
			i > 0
				? Math.max(0, Date.parse(event.at) - Date.parse(list[i - 1].at)) / 1000
				: null;
		const word = event.what ?? '';
		return h(
			'li',
			{
				key: i,
				class: /dead|died|fail|lost/.test(word)
					? 'bad'
					: /ack|finish/.test(word)
						? 'good'
						: null,
			},
			h(
				'div',
				{ class: 'when' },
				at(event.at),
				gap === null ? null : h('span', { class: 'quiet' }, ` after ${duration(gap)}`),
			),
			h(
				'div',
				null,
				h('b', null, name(word)),
				event.detail ? [' ', name(event.detail, 300)] : null,
			),
		);
	};
	return panel('Time line', null, h('ol', { class: 'timeline' }, list.map(item)));
}

const ATTEMPTS = [
	{
		title: 'Attempt',
		class: 'number',
		value: (row) => row.attempt,
		cell: (row) => count(row.attempt),
	},
	{ title: 'Outcome', value: (row) => row.outcome, cell: (row) => badge(row.outcome) },
	{ title: 'Claimed', value: (row) => row.claimed_at, cell: (row) => at(row.claimed_at) },
	{
		title: 'Took',
		class: 'number',
		cell: (row) =>
			row.ended_at && row.claimed_at
				? duration((Date.parse(row.ended_at) - Date.parse(row.claimed_at)) / 1000)
				: '–',
	},
	{
		title: 'Worker',
		value: (row) => row.worker,
		cell: (row) => (row.worker ? name(row.worker, 60) : '–'),
	},
	{
		title: 'Error or reason',
		class: 'wide',
		cell: (row) => ((row.error ?? row.reason) ? name(row.error ?? row.reason, 200) : '–'),
	},
];

// What happens to the child if the parent ends otherwise than by an ack: the server sends a word or
// its number.
const ON_FAILURE = { 1: 'cancel', 2: 'run', 3: 'hold' };

// member: parent_id or child_id, the id of the other job.
const relatives = (member) => [
	{
		title: 'Job',
		value: (row) => row.job_id ?? row[member],
		cell: (row) => jobLink(row.job_id ?? row[member]),
	},
	{
		title: 'State',
		has: (row) => row.state,
		value: (row) => row.state,
		cell: (row) => badge(row.state === 'leased' ? 'in work' : row.state),
	},
	{
		title: 'Reference',
		value: (row) => row.ref,
		cell: (row) => (row.ref ? name(row.ref, 60) : '–'),
	},
	{
		title: 'If the parent fails',
		value: (row) => row.on_failure,
		cell: (row) => plain(ON_FAILURE[row.on_failure] ?? row.on_failure),
	},
];

export function draw(answer, { params, state, redraw }) {
	const job = answer.job;
	if (!job?.where) {
		return [
			heading(`Job ${params.id}`),
			notes(answer.notes),
			explanation(rowsOf(answer.explanation)),
			empty(
				'There is no such job that you may see.',
				'A job that has ended is kept only if its queue has keep_finished.',
			),
		];
	}
	const lists = ['attempts', 'parents', 'children'].map((list) => rowsOf(answer[list]));
	const rows = (label, columns, list, key) =>
		list.length
			? panel(
					label,
					null,
					table(columns, list, (state[label] ??= {}), redraw, { label, key }),
				)
			: null;
	const bytesOf = state.full ? {} : answer;
	const texts = { ...answer, ...state.full };
	const loadAll = async () => {
		const all = await get('job', { id: params.id, full: 1 }).catch((error) =>
			say(error.message),
		);
		if (all)
			state.full = {
				payload: all.payload,
				headers: all.headers,
				result: all.result,
				progress: all.progress,
			};
		redraw();
	};
	const document = (label, member) =>
		panel(
			label,
			null,
			json(texts[member], `${params.id} ${label}`, redraw, {
				bytes: bytesOf[member + '_bytes'],
				loadAll,
			}),
		);
	const batch = answer.batch ?? job.batch;
	const steps = rowsOf(answer.steps);
	return [
		heading(
			[`Job ${params.id} `, stateBadge(job)],
			actions(params.id, job),
			payloadButton(redraw),
		),
		notes(answer.notes),
		h('div', { class: 'columns' }, overview(job), explanation(rowsOf(answer.explanation))),
		error(job.last_error),
		timeLine(rowsOf(answer.timeline)),
		rows('Attempts', ATTEMPTS, lists[0], (row) => row.claimed_at + row.attempt),
		rows('Parents', relatives('parent_id'), lists[1]),
		rows('Children', relatives('child_id'), lists[2]),
		batch
			? panel(
					'Batch',
					null,
					facts(
						typeof batch === 'object'
							? Object.entries(batch).map(([term, value]) => [term, plain(value)])
							: [['Batch', String(batch)]],
					),
				)
			: null,
		document('Payload', 'payload'),
		['headers', 'progress', 'result'].map((member) =>
			texts[member] === null || texts[member] === undefined
				? null
				: document(member[0].toUpperCase() + member.slice(1), member),
		),
		steps.map((step) =>
			panel(
				`Checkpoint ${visible(step.step)}`,
				ago(step.kept_at),
				json(step.value, `${params.id} step ${step.step}`, redraw),
			),
		),
	];
}
