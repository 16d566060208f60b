// A view that is one table with a filter: schedules, handlers, batches, locks and rates are made by
// it.
import { get } from './api.js';
import { readOnlyBadge } from './actions.js';
import { rowsOf } from './answers.js';
import { empty, heading, notes, panel } from './parts.js';
import { h } from './dom.js';
import { plural } from './format.js';
import { filtered, filterField, moreButton, table } from './table.js';

// name: the heading; noun: one of them and several; path: what the server is asked for; none:
// [text, advice] if there are no rows; text(row) is what the filter looks at; asked(query): what is
// asked for; aside(query): what stands beside the heading.
export function listView({ name, noun, path, columns, none, key, text, asked = () => ({}), aside }) {
	return {
		title: () => name,
		load({ query, state }, signal) {
			const search = JSON.stringify(asked(query));
			if (state.key !== search) Object.assign(state, { key: search, older: [] });
			return get(path, asked(query), signal);
		},
		draw(answer, view) {
			const { state, redraw } = view;
			const seen = new Set();
			const all = [answer, ...state.older]
				.flatMap(rowsOf)
				.filter((row) => !seen.has(key(row)) && seen.add(key(row)));
			const last = state.older.at(-1) ?? answer;
			const rows = filtered(all, state, text);
			const content = !all.length
				? empty(...none)
				: !rows.length
					? empty('No row has this text.')
					: table(columns, rows, state, redraw, { key, label: name });
			return [
				heading(
					name,
					aside?.(view.query),
					columns.some((column) => column.class === 'buttons') ? readOnlyBadge() : null,
				),
				notes(answer.notes),
				panel(
					plural(all.length, ...noun),
					all.length > 5 || state.filter ? filterField(state, redraw, 'Filter') : null,
					content,
					last.isLoading || (last.more && last.after)
						? moreButton(
								view,
								last,
								(after) => get(path, { ...asked(view.query), after }),
								'Read more',
							)
						: null,
					last.more && !last.after
						? h('p', { class: 'quiet' }, 'There are more rows than pgq-web reads.')
						: null,
				),
			];
		},
	};
}
