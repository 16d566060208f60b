// A line chart in SVG: values over time, a legend with the values at the cursor, arrows move the
// cursor.
import { h, component } from './dom.js';
import { marks, number, path, timeMarks } from './axis.js';
import { clockTime } from './format.js';

const HEIGHT = 150;
const MARGIN = { top: 8, right: 10, bottom: 20, left: 52 };

// Draws the picture for a width in pixels; returns its parts, and the places of the times.
function picture({ times, series, write }, width) {
	const right = width - MARGIN.right;
	const bottom = HEIGHT - MARGIN.bottom;
	const [from, to] = [times[0], Math.max(times.at(-1), times[0] + 1000)];
	const axis = marks(Math.max(0, ...series.flatMap(({ values }) => values)) || 1);
	const xOf = (time) => MARGIN.left + ((time - from) / (to - from)) * (right - MARGIN.left);
	const y = (value) => bottom - (value / axis.at(-1)) * (bottom - MARGIN.top);
	const x = (i) => xOf(times[i]);
	const lines = axis.map((value) =>
		h(
			'g',
			null,
			h('line', { class: 'grid', x1: MARGIN.left, x2: right, y1: y(value), y2: y(value) }),
			h('text', { class: 'axis end', x: MARGIN.left - 6, y: y(value) + 4 }, write(value)),
		),
	);
	const clock = timeMarks(from, to, right - MARGIN.left).map((time) =>
		h('text', { class: 'axis middle', x: xOf(time), y: HEIGHT - 4 }, clockTime(time)),
	);
	const curves = series.map(({ values }, i) =>
		h('path', { class: 'line line' + i, d: path(values, x, y) }),
	);
	return { nodes: [...lines, ...clock, ...curves], x, y, bottom };
}

// Returns a chart. data: { label, times: [ISO], series: [{ name, values }], write(value) -> text }.
export function chart(data) {
	let shown = null; // the data with numbers instead of text
	let drawn = null; // what picture() has returned
	let cursor = null; // the place of the time under the cursor
	const svg = h('svg', { height: HEIGHT, width: '100%', tabindex: 0, role: 'img' });
	const legend = h('div', { class: 'legend' });
	const root = h('div', { class: 'chart' }, legend, svg);

	function drawLegend() {
		const at = cursor ?? shown.times.length - 1;
		const entries = shown.series.map(({ name, values }, i) =>
			h(
				'span',
				null,
				h('i', { class: 'key line' + i }),
				name + ' ',
				h(
					'b',
					null,
					values[at] === null || values[at] === undefined ? '–' : shown.write(values[at]),
				),
			),
		);
		legend.replaceChildren(
			...entries,
			h('span', { class: 'when' }, cursor === null ? '' : clockTime(shown.times[at])),
		);
		svg.setAttribute('aria-label', `${shown.label}: ${legend.textContent}`);
	}

	function drawCursor() {
		svg.querySelector('.cursor')?.remove();
		if (cursor === null || !drawn) return;
		const x = drawn.x(cursor);
		const dots = shown.series.map(({ values }, i) =>
			values[cursor] === null
				? null
				: h('circle', { class: 'dot line' + i, r: 3, cx: x, cy: drawn.y(values[cursor]) }),
		);
		svg.append(
			h(
				'g',
				{ class: 'cursor' },
				h('line', { x1: x, x2: x, y1: MARGIN.top, y2: drawn.bottom }),
				dots,
			),
		);
	}

	function draw() {
		const width = svg.clientWidth;
		if (width === 0 || shown === null) return;
		drawn = shown.times.length ? picture(shown, width) : null;
		svg.replaceChildren(
			...(drawn?.nodes ?? [
				h(
					'text',
					{ class: 'axis middle', x: width / 2, y: HEIGHT / 2 },
					'The first values come within 10 seconds.',
				),
			]),
		);
		drawLegend();
		drawCursor();
	}

	function point(at) {
		cursor = at;
		drawLegend();
		drawCursor();
	}

	svg.addEventListener('pointermove', (event) => {
		if (!drawn) return;
		const x = event.clientX - svg.getBoundingClientRect().left;
		let best = 0;
		shown.times.forEach((_, i) => {
			if (Math.abs(drawn.x(i) - x) < Math.abs(drawn.x(best) - x)) best = i;
		});
		point(best);
	});
	svg.addEventListener('pointerleave', () => shown && point(null));
	svg.addEventListener('blur', () => shown && point(null));
	svg.addEventListener('keydown', (event) => {
		const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
		if (!step || !drawn) return;
		event.preventDefault();
		const last = shown.times.length - 1;
		point(Math.max(0, Math.min(last, (cursor ?? last) + step)));
	});
	new ResizeObserver(draw).observe(svg);

	return component(root, data, ({ label, times, series, write }) => {
		shown = {
			label,
			write,
			times: times.map((time) => Date.parse(time)),
			series: series.map(({ name, values }) => ({
				name,
				values: times.map((_, i) => number(values?.[i])),
			})),
		};
		if (cursor !== null) cursor = Math.min(cursor, times.length - 1);
		if (cursor !== null && cursor < 0) cursor = null;
		draw();
		drawLegend();
	});
}
