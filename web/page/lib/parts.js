// Pieces that several views use: panels, badges, notes, errors, empty states, JSON, skeletons.
import { h } from './dom.js';
import { visible, brief, layOut } from './text.js';
import { at, bytes, plural } from './format.js';
import { address, queuePath, jobPath } from './router.js';
import { session } from './api.js';
import { arePayloadsHidden, hidePayloads } from './settings.js';

// A name that others have chosen. Its direction of writing does not change the text around it.
export function name(text, length = 200) {
	return h(
		'bdi',
		{ title: String(text).length > length ? brief(text, 2000) : null },
		brief(text, length),
	);
}

export function link(path, query, ...children) {
	return h('a', { href: address(path, query) }, children);
}

export function queueLink(queue) {
	return queue ? link(queuePath(queue), {}, name(queue, 60)) : '–';
}

export function jobLink(id) {
	return id ? link(jobPath(id), {}, String(id)) : '–';
}

// A part of the page with a heading. `aside` stands at the end of the heading's line.
export function panel(title, aside, ...content) {
	return h(
		'section',
		{
			class: 'panel',
			key: 'panel ' + (typeof title === 'string' ? title.replace(/\d+/, '') : ''),
		},
		h(
			'div',
			{ class: 'panel-head' },
			h('h2', null, title),
			aside ? h('div', { class: 'aside' }, aside) : null,
		),
		content,
	);
}

// The heading of a view, with its actions.
export function heading(title, ...aside) {
	return h(
		'div',
		{ class: 'heading', key: 'heading' },
		h('h1', null, title),
		h('div', { class: 'actions' }, aside),
	);
}

const TONES = {
	ok: 'good',
	acked: 'good',
	active: 'good',
	finished: 'good',
	live: 'good',
	warn: 'warn',
	paused: 'warn',
	'waiting for a worker slot': 'warn',
	lost: 'warn',
	released: 'warn',
	polling: 'warn',
	fail: 'bad',
	dead: 'bad',
	suspended: 'bad',
	failed: 'bad',
	stale: 'bad',
	leased: 'work',
	open: 'work',
	'in work': 'work',
};

// A word in a coloured frame. The word alone has the same meaning as the colour.
export function badge(word, tone = TONES[word] ?? 'plain') {
	return word ? h('span', { class: 'badge ' + tone }, brief(word, 40)) : '–';
}

// Says that there is nothing to show, and what the reader can do.
export function empty(text, ...advice) {
	return h(
		'div',
		{ class: 'empty' },
		h('p', { class: 'empty-text' }, text),
		advice.length ? h('p', null, advice) : null,
	);
}

export function notes(list) {
	return list?.length
		? h(
				'ul',
				{ class: 'notes', key: 'notes' },
				list.map((note) => h('li', null, visible(note))),
			)
		: null;
}

// An error with message, detail and hint.
export function errorBox(error, ...actions) {
	const code = /^[0-9A-Z]{5}$/.test(error.code)
		? h('span', { class: 'code', title: 'SQLSTATE' }, error.code)
		: null;
	return h(
		'div',
		{ class: 'error', role: 'alert' },
		h('p', { class: 'error-text' }, visible(error.message), ' ', code),
		error.detail ? h('p', null, visible(error.detail)) : null,
		error.hint ? h('p', null, h('b', null, 'Hint: '), visible(error.hint)) : null,
		actions.length ? h('div', { class: 'actions' }, actions) : null,
	);
}

// Pairs of a term and its value. Pairs whose value is undefined are left out.
export function facts(pairs, { short = false } = {}) {
	return h(
		'dl',
		{ class: short ? 'facts short' : 'facts' },
		pairs
			.filter(([, value]) => value !== undefined)
			.map(([term, value]) =>
				h(
					'div',
					{ key: term },
					h('dt', null, term),
					h('dd', null, value === null || value === '' ? '–' : value),
				),
			),
	);
}

// A value of unknown type, for members that a newer server may add.
export function plain(value) {
	if (value === null || value === undefined) return '–';
	if (Array.isArray(value) && !value.some((item) => item && typeof item === 'object'))
		return value.map((item) => brief(item, 80)).join(', ') || '–';
	if (/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value)) return at(value);
	return typeof value === 'object' ? brief(JSON.stringify(value), 400) : brief(value, 400);
}

const SHORT = 20000; // characters of JSON that are shown before the reader asks for all
const shownWhole = new Set();

async function copy(event, text) {
	const button = event.currentTarget;
	try {
		await navigator.clipboard.writeText(text);
		button.textContent = 'Copied';
	} catch {
		button.textContent = 'Cannot copy';
	}
}

// JSON text of others, laid out but not parsed. `id` tells this text from others on the page. The
// buttons call `redraw`. A text that the server has left out, because it is long, has `bytes`;
// loadAll() reads it.
export function json(text, id, redraw, { bytes: size, loadAll } = {}) {
	if ((text ?? null) === null && size && !session.hide_payload) {
		return h(
			'p',
			{ class: 'quiet' },
			`The text has ${bytes(size)}. `,
			h('button', { class: 'small', on: { click: loadAll } }, 'Read it'),
		);
	}
	if (text === null || text === undefined) {
		return h(
			'p',
			{ class: 'quiet' },
			session.hide_payload ? 'pgq-web was started with --hide-payload.' : 'None.',
		);
	}
	if (arePayloadsHidden())
		return h('p', { class: 'quiet' }, `Hidden (${plural(text.length, 'character')}).`);
	const isShort = text.length > SHORT && !shownWhole.has(id);
	const part = isShort ? text.slice(0, SHORT) : text;
	const buttons = [
		h('button', { class: 'small', on: { click: (event) => copy(event, text) } }, 'Copy'),
	];
	if (isShort) {
		buttons.push(
			h(
				'button',
				{
					class: 'small',
					on: {
						click: () => {
							shownWhole.add(id);
							redraw();
						},
					},
				},
				`Show all of ${bytes(text.length)}`,
			),
		);
	}
	return h(
		'div',
		{ class: 'json' },
		h('pre', { tabindex: 0 }, visible(layOut(part)) + (isShort ? '\n…' : '')),
		h('div', { class: 'actions' }, buttons),
	);
}

// The button that hides or shows all payloads, headers, results and progress in this browser.
export function payloadButton(redraw) {
	const hidden = arePayloadsHidden();
	return h(
		'button',
		{
			class: 'small',
			'aria-pressed': String(hidden),
			on: {
				click: () => {
					hidePayloads(!hidden);
					redraw();
				},
			},
		},
		hidden ? 'Show payloads' : 'Hide payloads',
	);
}

// Grey shapes of about the size of what comes.
export function skeleton(rows = 8) {
	return h(
		'div',
		{ class: 'skeleton', key: 'skeleton', 'aria-busy': 'true' },
		h('span', { class: 'visually-hidden' }, 'Loading'),
		h('div', { class: 'bone title' }),
		h('div', { class: 'bone block' }),
		Array.from({ length: rows }, () => h('div', { class: 'bone row' })),
	);
}
