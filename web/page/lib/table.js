// Tables: sorting, a filter, more rows on demand, arrows to go from row to row, Enter to open a
// row. On a narrow screen the style sheet turns each row into a card, so that nothing must be
// scrolled sideways.
import { h } from './dom.js';
import { isZero, plural } from './format.js';

const STEP = 100; // rows that are added at once

// Compares counts as integers, numbers as numbers, and all else as text. Missing values are last.
function compare(a, b) {
	const isMissing = (value) => value === null || value === undefined;
	if (isMissing(a) || isMissing(b)) return isMissing(a) - isMissing(b);
	if (typeof a === 'number' && typeof b === 'number') return a - b;
	if (/^-?\d+$/.test(a) && /^-?\d+$/.test(b)) {
		const [x, y] = [BigInt(a), BigInt(b)];
		return x < y ? -1 : x > y ? 1 : 0;
	}
	return String(a).localeCompare(String(b));
}

function sorted(rows, columns, { by, down }) {
	const column = columns.find(({ title }) => title === by);
	if (!column) return rows;
	const value = column.value;
	const sign = down ? -1 : 1;
	return [...rows].sort((a, b) => {
		const [x, y] = [value(a), value(b)];
		if ((x ?? null) === null || (y ?? null) === null) return compare(x, y);
		return sign * compare(x, y);
	});
}

function moveFocus(event) {
	const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 };
	const row = event.target.closest('tr');
	const isControl = event.target.closest('input, select, button, textarea');
	if (event.key === 'Enter' && event.target === row)
		row.querySelector('td a, td button')?.click();
	if (!(event.key in steps) || isControl || event.altKey || event.ctrlKey || event.metaKey)
		return;
	const rows = [...event.currentTarget.querySelectorAll('tbody tr')];
	const from = rows.indexOf(row);
	const to = Math.max(0, Math.min(rows.length - 1, from < 0 ? 0 : from + steps[event.key]));
	if (!rows[to]) return;
	event.preventDefault();
	for (const other of rows) other.tabIndex = -1;
	rows[to].tabIndex = 0;
	rows[to].focus();
}

function head(columns, state, redraw, onSort) {
	const cell = (column) => {
		const props = { scope: 'col', class: column.class };
		if (!column.value)
			return h(
				'th',
				props,
				column.title || h('span', { class: 'visually-hidden' }, 'Actions'),
			);
		const isChosen = state.by === column.title;
		const sort = () => {
			if (onSort) return onSort(column);
			Object.assign(state, {
				by: column.title,
				down: isChosen ? !state.down : column.class === 'number',
			});
			redraw();
		};
		const order = state.down ? 'descending' : 'ascending';
		return h(
			'th',
			{ ...props, 'aria-sort': isChosen ? order : null },
			h(
				'button',
				{ class: 'sort', on: { click: sort } },
				column.title,
				h(
					'span',
					{ class: 'mark', 'aria-hidden': 'true' },
					isChosen ? (state.down ? '↓' : '↑') : '',
				),
			),
		);
	};
	return h('thead', null, h('tr', null, columns.map(cell)));
}

// Returns a table.
// columns: [{ title, cell(row) -> node, value(row) for sorting, class: 'number', 'wide' or
// 'buttons', has(row): a column that has nothing to show in any row is left out }]
// state: an object that the view keeps between two drawings; redraw: draws the view anew.
// Options: key(row) -> text; label of the table; onSort(column): the server sorts, not this
// function.
export function table(all, rows, state, redraw, { key, label, onSort } = {}) {
	const columns = all.filter(({ has }) => !has || rows.some(has));
	const list = onSort ? rows : sorted(rows, columns, state);
	const shown = list.slice(0, state.shown ?? STEP);
	const rest = list.length - shown.length;
	const body = shown.map((row, i) =>
		h(
			'tr',
			{ key: key ? key(row) : null, tabindex: i === 0 ? 0 : -1 },
			columns.map((column) =>
				h(
					'td',
					{
						class:
							[column.class, column.isIdle?.(row) ? 'idle' : '']
								.filter(Boolean)
								.join(' ') || null,
						'data-label': column.title || null,
					},
					column.cell(row),
				),
			),
		),
	);
	const more = () => {
		state.shown = shown.length + STEP * 2;
		redraw();
	};
	return h(
		'div',
		{ class: 'table', key: 'table ' + label },
		h(
			'table',
			{ 'aria-label': label, on: { keydown: moveFocus } },
			head(columns, state, redraw, onSort),
			h('tbody', null, body),
		),
		rest > 0
			? h(
					'button',
					{ class: 'more', on: { click: more } },
					`Show more (${plural(rest, 'row')} left)`,
				)
			: null,
	);
}

// Returns the field that leaves only the rows that contain a text. `/` puts the cursor there.
export function filterField(state, redraw, label) {
	const input = (event) => {
		state.filter = event.target.value;
		state.shown = undefined;
		redraw();
	};
	return h('input', {
		type: 'search',
		class: 'filter',
		placeholder: label,
		'aria-label': label,
		'data-search': '',
		value: state.filter,
		on: { input },
	});
}

export function filtered(rows, state, text) {
	const wanted = (state.filter ?? '').toLowerCase();
	return wanted ? rows.filter((row) => text(row).toLowerCase().includes(wanted)) : rows;
}

// A column with a number that is grey if it is zero.
export function numberColumn(title, value, write) {
	return {
		title,
		value,
		class: 'number',
		isIdle: (row) => isZero(value(row)), // the card of a narrow screen leaves it out
		cell: (row) => h('span', { class: isZero(value(row)) ? 'zero' : null }, write(value(row))),
	};
}

// The button that reads the next page of a list. view.state.older: the pages after the first one;
// last: the last page; read(after) asks the server for a page.
export function moreButton({ state, redraw }, last, read, label) {
	const click = async () => {
		const { key } = state;
		const loading = { rows: [], isLoading: true };
		state.older.push(loading);
		redraw();
		const page = await read(last.after).catch((error) => ({
			rows: [],
			more: true,
			after: last.after,
			failure: error.message,
		}));
		if (state.key !== key) return;
		state.older[state.older.indexOf(loading)] = page;
		redraw();
	};
	return h(
		'button',
		{ class: 'more', disabled: Boolean(last.isLoading), on: { click } },
		last.isLoading ? 'Loading' : last.failure ? `Try again. ${last.failure}` : label,
	);
}
