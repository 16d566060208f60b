// Questions before an action, and short messages after it. Escape closes a question, and changes
// nothing.
import { h } from './dom.js';
import { visible } from './text.js';
import { errorBox } from './parts.js';

let numbered = 0;

// Returns the label, the input and the hint of a field.
// field: { name, label, type, value, hint, required, isHalf: two stand side by side, mustBe: the
// text that has to be typed }
function fieldRow(field, check) {
	const id = `field-${++numbered}`;
	const isArea = field.type === 'json';
	const input = h(isArea ? 'textarea' : 'input', {
		id,
		name: field.name,
		type: isArea ? null : (field.type ?? 'text'),
		rows: isArea ? 6 : null,
		required: field.required,
		autocomplete: field.autocomplete ?? 'off',
		spellcheck: 'false',
		autocapitalize: 'off',
		step: field.step ?? null,
		'aria-describedby': field.hint ? id + '-hint' : null,
		on: { input: check },
	});
	if (field.value !== undefined) input.value = field.value;
	return h(
		'div',
		{ class: field.isHalf ? 'field half' : 'field' },
		h('label', { for: id }, field.label),
		input,
		field.hint ? h('p', { class: 'quiet', id: id + '-hint' }, field.hint) : null,
	);
}

// Asks a question in a dialog. run(values) is called when the reader agrees; an error that it
// throws is shown in the dialog, which stays open. Returns what run() has returned, or undefined if
// the reader has declined.
export function ask({ title, text, fields = [], submit, danger = false, run }) {
	return new Promise((resolve) => {
		let answer;
		let isRunning = false;
		const failure = h('div', { class: 'failure' });
		const yes = h('button', { type: 'submit', class: danger ? 'danger' : 'primary' }, submit);
		const no = h(
			'button',
			{ type: 'button', on: { click: () => dialog.close() } },
			'Do nothing',
		);
		const values = () =>
			Object.fromEntries(fields.map(({ name }) => [name, form.elements[name].value]));
		const check = () => {
			const now = values();
			yes.disabled =
				isRunning ||
				fields.some(({ name, mustBe }) => mustBe !== undefined && now[name] !== mustBe);
		};
		const setRunning = (running) => {
			isRunning = running;
			yes.setAttribute('aria-busy', String(running));
			check();
		};
		const agree = async (event) => {
			event.preventDefault();
			if (isRunning || yes.disabled) return;
			setRunning(true);
			failure.replaceChildren();
			try {
				answer = await run(values());
				dialog.close();
			} catch (error) {
				failure.replaceChildren(errorBox(error));
				failure.scrollIntoView({ block: 'nearest' });
			}
			setRunning(false);
		};
		const form = h(
			'form',
			{ on: { submit: agree } },
			h('h2', { id: 'question' }, title),
			h('p', null, text),
			fields.map((field) => fieldRow(field, check)),
			failure,
			h('div', { class: 'actions' }, no, yes),
		);
		const dialog = h('dialog', { 'aria-labelledby': 'question' }, form);
		dialog.addEventListener('close', () => {
			dialog.remove();
			resolve(answer);
		});
		document.body.append(dialog);
		check();
		dialog.showModal();
		(form.querySelector('input, textarea') ?? no).focus();
	});
}

// Shows a message for some seconds.
export function say(text) {
	const message = h('div', { class: 'message' }, visible(text));
	document.getElementById('messages').append(message);
	setTimeout(() => message.remove(), 3000 + text.length * 60);
}
