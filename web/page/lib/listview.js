// A view that is one table with a filter: schedules, handlers, batches, locks and rates are made by
// it.
import { get } from './api.js';
import { readOnlyBadge } from './actions.js';
import { rowsOf } from './answers.js';
import { empty, heading, notes, panel } from './parts.js';
import { h } from './dom.js';
import { plural } from './format.js';
import { filtered, filterField, table } from './table.js';

// name: the heading; noun: one of them and several; path: what the server is asked for; none:
// [text, advice] if there are no rows; text(row) is what the filter looks at.
export function listView({ name, noun, path, columns, none, key, text }) {
	return {
		title: () => name,
		load: (view, signal) => get(path, {}, signal),
		draw(answer, view) {
			const { state, redraw } = view;
			const all = rowsOf(answer);
			const rows = filtered(all, state, text);
			const content = !all.length
				? empty(...none)
				: !rows.length
					? empty('No row has this text.')
					: table(columns, rows, state, redraw, { key, label: name });
			return [
				heading(
					name,
					columns.some((column) => column.class === 'buttons') ? readOnlyBadge() : null,
				),
				notes(answer.notes),
				panel(
					plural(all.length, ...noun),
					all.length > 5 || state.filter ? filterField(state, redraw, 'Filter') : null,
					content,
					answer.more
						? h('p', { class: 'quiet' }, 'There are more rows than pgq-web reads.')
						: null,
				),
			];
		},
	};
}
