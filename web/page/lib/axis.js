// The arithmetic of charts: marks of the axes, and paths of lines.

// Returns a round number that is not smaller: 1, 2 or 5 times a power of ten.
function roundUp(value) {
	const power = 10 ** Math.floor(Math.log10(value));
	return [1, 2, 5, 10].map((factor) => factor * power).find((round) => round >= value * 0.999999);
}

// Returns the marks of the vertical axis, from 0 to at least `max`.
export function marks(max) {
	const step = roundUp(max / 4);
	const count = Math.ceil(max / step - 1e-6);
	return Array.from({ length: count + 1 }, (_, i) => i * step);
}

// Returns the times of the horizontal axis: round minutes, at most one for 80 pixels.
export function timeMarks(from, to, width) {
	const step =
		[1, 2, 5, 10, 15, 30, 60]
			.map((minutes) => minutes * 60000)
			.find((size) => (to - from) / size <= width / 80) ?? 3600000;
	const out = [];
	for (let time = Math.ceil(from / step) * step; time <= to; time += step) out.push(time);
	return out;
}

// Returns the path of one line. A missing value leaves a gap.
export function path(values, x, y) {
	let out = '';
	let isDrawing = false;
	values.forEach((value, i) => {
		if (value === null) {
			isDrawing = false;
			return;
		}
		out += `${isDrawing ? 'L' : 'M'}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
		isDrawing = true;
	});
	return out;
}

export function number(value) {
	return value === null || value === undefined || !Number.isFinite(Number(value))
		? null
		: Number(value);
}
