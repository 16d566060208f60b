// The actions: what each one asks, sends and says. Each is one call of a function of pgq_ext, under
// the role that has logged in. A question names the object that the action will change.
import { h } from './dom.js';
import { ask, say } from './dialog.js';
import { mayRun, post, whyNoActions } from './api.js';
import { plural, serverNow } from './format.js';
import { badge, name } from './parts.js';
import { likePattern } from './text.js';

let refresh = () => {};

// Sets the function that reads the data of the view again.
export function setRefresh(run) {
	refresh = run;
}

const strong = (text) => h('strong', null, name(text));

// Removes empty values, so that the defaults of the function apply.
function filled(values) {
	return Object.fromEntries(
		Object.entries(values).filter(
			([, value]) => value !== '' && value !== null && value !== undefined,
		),
	);
}

// Milliseconds since 1970 -> the value of an input of type datetime-local, in the reader's zone.
function toLocal(milliseconds) {
	const time = new Date(milliseconds);
	return new Date(milliseconds - time.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}

const job = (id) => ['the job ', strong(id)];
const unchanged = 'Nothing was changed: the job is in work, has expired, or does not exist.';

// Each entry: (argument) -> { title, text, submit, danger, fields, args(values), done(result) ->
// message }.
const ACTIONS = {
	pause_queue: (queue) => ({
		title: 'Pause the queue',
		submit: 'Pause',
		args: () => ({ queue }),
		done: () => `The queue ${queue} is paused.`,
		text: [
			'Pause ',
			strong(queue),
			'? Workers get no jobs of this queue until it is resumed. Jobs in work go on.',
		],
	}),
	resume_queue: (queue) => ({
		title: 'Resume the queue',
		submit: 'Resume',
		args: () => ({ queue }),
		done: () => `The queue ${queue} goes on.`,
		text: ['Resume ', strong(queue), '? Workers get its jobs again.'],
	}),
	purge_queue: (queue) => ({
		title: 'Delete all waiting jobs',
		submit: 'Delete the jobs',
		danger: true,
		args: ({ confirm }) => ({ queue, confirm }),
		done: (result) => `${plural(result, 'job')} of ${queue} were deleted.`,
		text: ['Delete all waiting jobs of ', strong(queue), '? They cannot be brought back.'],
		fields: [
			{ name: 'confirm', label: 'To confirm, type the name of the queue', mustBe: queue },
		],
	}),
	redrive: ({ queue, error, pattern, count }) => {
		const like = error === undefined ? null : (pattern ?? likePattern(error));
		const which = like?.isWhole ? ' with the error ' : ' with an error that begins with ';
		return {
			title: 'Redrive dead letters',
			submit: 'Redrive',
			args: ({ max_jobs }) => filled({ queue, error_like: like?.pattern, max_jobs }),
			done: (result) => `${plural(result, 'dead letter')} of ${queue} became jobs again.`,
			text: [
				like ? 'Turn the dead letters of ' : 'Turn all dead letters of ',
				strong(queue),
				like ? [which, strong(error)] : '',
				' back into jobs',
				count === undefined ? '' : ` (now ${plural(count, 'dead letter')})`,
				'? They run again with all their attempts.',
			],
			fields: [{ name: 'max_jobs', label: 'At most this many (empty: all)', type: 'number' }],
		};
	},
	enqueue: (queue) => ({
		title: 'Enqueue a job',
		submit: 'Enqueue',
		args: (values) => ({ queue, ...filled(values) }),
		done: (result) => `The job has the id ${result}.`,
		text: ['Add a job to ', strong(queue), '.'],
		fields: [
			{ name: 'payload', label: 'Payload (JSON)', type: 'json', value: '{}', required: true },
			{
				name: 'delay',
				label: 'Delay in seconds',
				type: 'number',
				isHalf: true,
				hint: 'Empty: the job is due at once.',
			},
			{
				name: 'priority',
				label: 'Priority',
				type: 'number',
				isHalf: true,
				hint: 'Greater numbers go first. Empty: 0.',
			},
			{ name: 'group_key', label: 'Group key', isHalf: true },
			{
				name: 'unique_key',
				label: 'Unique key',
				isHalf: true,
				hint: 'While a job has this key, no second job is made.',
			},
		],
	}),
	retry: (id) => ({
		title: 'Run the job now',
		submit: 'Run now',
		args: () => ({ id }),
		text: ['Make ', job(id), ' due now?'],
		done: (result) => (result === false ? unchanged : `The job ${id} is due.`),
	}),
	run_at: (id) => ({
		title: 'Change the time',
		submit: 'Change',
		text: ['When shall ', job(id), ' run?'],
		args: ({ run_at }) => ({ id, run_at: new Date(run_at).toISOString() }),
		done: (result) => (result === false ? unchanged : `The time of the job ${id} was changed.`),
		fields: [
			{
				name: 'run_at',
				label: 'Time, in your time zone',
				type: 'datetime-local',
				step: 1,
				value: toLocal(serverNow()),
				required: true,
			},
		],
	}),
	priority: ({ id, priority }) => ({
		title: 'Change the priority',
		submit: 'Change',
		text: ['Which priority shall ', job(id), ' have? Greater numbers go first.'],
		args: (values) => ({ id, priority: values.priority }),
		done: (result) =>
			result === false ? unchanged : `The priority of the job ${id} was changed.`,
		fields: [
			{
				name: 'priority',
				label: 'Priority',
				type: 'number',
				value: priority ?? 0,
				required: true,
			},
		],
	}),
	cancel: ({ id, state }) => ({
		title: state === 'dead' ? 'Delete the dead letter' : 'Cancel the job',
		submit: state === 'dead' ? 'Delete' : 'Cancel the job',
		danger: true,
		text: [
			state === 'dead' ? 'Delete ' : 'End ',
			job(id),
			'? ',
			state === 'leased' ? 'Its worker loses the lease. ' : '',
			'This cannot be undone.',
		],
		args: () => ({ id }),
		done: (result) =>
			result
				? `The job ${id} has ended; its state was ${result}.`
				: `There is no job ${id} any more.`,
	}),
	release: (id) => ({
		title: 'Release the job',
		submit: 'Release',
		args: () => ({ id }),
		text: [
			'Take ',
			job(id),
			' away from its worker, and give it to the next one? No attempt is counted. The worker may still be at work.',
		],
		done: (result) =>
			result === false
				? `The lease has ended. The job ${id} was not changed.`
				: `The job ${id} waits again.`,
	}),
	run_again: (id) => ({
		title: 'Run the job again',
		submit: 'Run again',
		args: () => ({ id }),
		text: ['Enqueue a new job like ', job(id), '? The finished job stays as it is.'],
		done: (result) =>
			result ? `The new job has the id ${result}.` : `No record of the job ${id} was kept.`,
	}),
	run_schedule: (schedule) => ({
		title: 'Run the schedule now',
		submit: 'Run now',
		args: () => ({ schedule }),
		text: ['Enqueue a job of the schedule ', strong(schedule), ' now?'],
		done: (result) => (result ? `The job has the id ${result}.` : 'The schedule was run.'),
	}),
	pause_schedule: (schedule) => ({
		title: 'Pause the schedule',
		submit: 'Pause',
		args: () => ({ schedule }),
		done: () => `The schedule ${schedule} is paused.`,
		text: [
			'Pause the schedule ',
			strong(schedule),
			'? It enqueues no jobs until it is resumed.',
		],
	}),
	resume_schedule: (schedule) => ({
		title: 'Resume the schedule',
		submit: 'Resume',
		args: () => ({ schedule }),
		done: () => `The schedule ${schedule} goes on.`,
		text: ['Resume the schedule ', strong(schedule), '?'],
	}),
	pause_handler: (queue) => ({
		title: 'Pause the handler',
		submit: 'Pause',
		args: () => ({ queue }),
		done: () => `The handler of ${queue} is paused.`,
		text: ['Pause the handler of ', strong(queue), '? Its jobs wait until it is resumed.'],
	}),
	resume_handler: (queue) => ({
		title: 'Resume the handler',
		submit: 'Resume',
		args: () => ({ queue }),
		done: () => `The handler of ${queue} goes on.`,
		text: ['Resume the handler of ', strong(queue), '?'],
	}),
	close_batch: (batch) => ({
		title: 'Close the batch',
		submit: 'Close',
		args: () => ({ batch }),
		done: () => `The batch ${batch} is closed.`,
		text: ['Close the batch ', strong(batch), '? It finishes when all its members have ended.'],
	}),
	cancel_batch: (batch) => ({
		title: 'Cancel the batch',
		submit: 'Cancel the members',
		danger: true,
		args: () => ({ batch }),
		text: ['Cancel the members of the batch ', strong(batch), '? This cannot be undone.'],
		done: (result) => `${plural(result, 'member')} of the batch ${batch} were cancelled.`,
	}),
};

// Asks the question of an action, and runs it if the reader agrees.
async function start(action, argument) {
	const { args, done, ...question } = ACTIONS[action](argument);
	const answer = await ask({
		...question,
		run: (values) => post('action', { action, ...args(values) }),
	});
	if (!answer) return;
	say(done(answer.result));
	refresh();
}

// Returns the button of an action, or null if the role may not call its function. The button says why if the reader
// cannot use it.
export function actionButton(action, argument, label, { danger = false, small = false } = {}) {
	if (!mayRun(action)) return null;
	const reason = whyNoActions();
	return h(
		'button',
		{
			class: [small ? 'small' : '', danger ? 'danger' : ''].join(' ').trim() || null,
			key: action,
			'aria-disabled': reason ? 'true' : null,
			title: reason,
			on: { click: () => (reason ? say(reason) : start(action, argument)) },
		},
		label,
	);
}

// Says once on a view why its actions are switched off.
export function readOnlyBadge() {
	const reason = whyNoActions();
	return reason ? h('span', { title: reason }, badge('read-only', 'plain')) : null;
}
