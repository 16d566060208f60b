// A histogram in SVG: how many jobs had a time within which bounds, since the counters of the queue began.
import { h } from './dom.js';
import { count, duration, plural } from './format.js';

const HEIGHT = 96; // of the highest bar
const LABELS = 6; // bounds that are written below the bars, at most

// rows: [{ le_seconds, count }] of one phase; count: text of digits, of all times that are shorter; le_seconds: a
// number, or null or a text for the last one. Returns [{ from, to, jobs }] from the first bar with jobs to the last one.
function bars(rows) {
	const bound = (row) => (typeof row.le_seconds === 'number' ? row.le_seconds : Infinity);
	const list = [...rows].sort((a, b) => (bound(a) < bound(b) ? -1 : 1));
	const all = list.map((row, i) => ({
		from: i === 0 ? 0 : bound(list[i - 1]),
		to: bound(row),
		jobs: BigInt(row.count ?? 0) - BigInt(i === 0 ? 0 : (list[i - 1].count ?? 0)),
	}));
	const first = all.findIndex(({ jobs }) => jobs > 0n);
	const last = all.findLastIndex(({ jobs }) => jobs > 0n);
	return first < 0 ? [] : all.slice(first, last + 1);
}

function range({ from, to }) {
	if (to === Infinity) return `more than ${duration(from)}`;
	return from === 0 ? `less than ${duration(to)}` : `${duration(from)} to ${duration(to)}`;
}

// Returns the histogram of a phase, or null if no job has been counted. Positions are percentages, so that it fits any
// width.
export function histogram(label, rows) {
	const list = bars(rows);
	if (!list.length) return null;
	const most = list.reduce((top, { jobs }) => (jobs > top ? jobs : top), 1n);
	const step = Math.ceil((list.length + 1) / LABELS);
	const width = 100 / Math.max(list.length, 8);
	const at = (i) => `${(i * width).toFixed(2)}%`;
	const heightOf = (jobs) =>
		jobs === 0n ? 0 : Math.max(1, (Number((jobs * 10000n) / most) / 10000) * HEIGHT);
	const columns = list.map((bar, i) =>
		h(
			'g',
			null,
			h('title', null, `${range(bar)}: ${plural(String(bar.jobs), 'job')}`),
			h('rect', {
				class: 'column',
				x: at(i + 0.05),
				width: `${(width * 0.9).toFixed(2)}%`,
				y: HEIGHT + 4 - heightOf(bar.jobs),
				height: heightOf(bar.jobs),
			}),
		),
	);
	const bounds = list.map(({ to }, i) =>
		(i + 1) % step === 0 && to !== Infinity
			? h('text', { class: 'axis middle', x: at(i + 1), y: HEIGHT + 18 }, duration(to, 0))
			: null,
	);
	const text = list.map((bar) => `${range(bar)}: ${plural(String(bar.jobs), 'job')}`).join('; ');
	return h(
		'div',
		{ class: 'histogram-box' },
		h('p', { class: 'quiet' }, `All jobs since the counters began; the highest bar has ${count(String(most))}.`),
		h(
			'svg',
			{
				class: 'histogram',
				height: HEIGHT + 24,
				width: '100%',
				role: 'img',
				'aria-label': `${label}: ${text}`,
			},
			h('line', { class: 'grid', x1: '0', x2: '100%', y1: HEIGHT + 4, y2: HEIGHT + 4 }),
			columns,
			bounds,
		),
	);
}
