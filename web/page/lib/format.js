// Writes numbers, times and lengths of time for people.
import { h } from './dom.js';

const whole = new Intl.NumberFormat();
const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const clock = new Intl.DateTimeFormat(undefined, { hour: 'numeric', minute: '2-digit' });
const NONE = '–';

// Milliseconds that the clock of the server is ahead of the reader's.
let skew = 0;

export function setServerTime(iso) {
	if (iso) skew = Date.parse(iso) - Date.now();
}

export function serverNow() {
	return Date.now() + skew;
}

// A count, exact to the last digit. The server sends counts as text of digits.
export function count(value) {
	if (value === null || value === undefined || value === '') return NONE;
	return /^-?\d+$/.test(value) ? whole.format(BigInt(value)) : String(value);
}

export function isZero(value) {
	return value === null || value === undefined || /^0*$/.test(value);
}

// "1 job", "2,000 jobs".
export function plural(value, noun, nouns = noun + 's') {
	return count(value) + ' ' + (String(value) === '1' ? noun : nouns);
}

// A number with about three digits, for charts and rates.
export function rough(value) {
	if (value === null || value === undefined || !Number.isFinite(Number(value))) return NONE;
	const number = Number(value);
	if (number === 0) return '0';
	const digits = Math.abs(number) >= 100 ? 0 : Math.abs(number) >= 10 ? 1 : 2;
	if (Math.abs(number) < 0.01) return number < 0 ? '-0' : '<0.01';
	return new Intl.NumberFormat(undefined, {
		maximumFractionDigits: digits,
		notation: Math.abs(number) >= 1e6 ? 'compact' : 'standard',
	}).format(number);
}

export function rate(value) {
	return value === null || value === undefined ? NONE : rough(value) + '/s';
}

const UNITS = [
	[86400, 'd'],
	[3600, 'h'],
	[60, 'min'],
	[1, 's'],
];

// A length of time: "1.2 ms", "4.5 s", "3 min 20 s". lastSplit: units from this one on are not
// followed by a smaller one.
export function duration(seconds, lastSplit = 3) {
	if (seconds === null || seconds === undefined || !Number.isFinite(Number(seconds))) return NONE;
	const value = Math.abs(Number(seconds));
	if (value === 0) return '0 s';
	if (value < 0.001) return `${Math.max(1, Math.round(value * 1e6))} µs`;
	if (value < 1) return `${rough(value * 1000)} ms`;
	if (value < 60) return `${rough(value)} s`;
	let rest = Math.round(value);
	const at = UNITS.findIndex(([size]) => rest >= size);
	const [size, name] = UNITS[at];
	let text = `${whole.format(Math.floor(rest / size))} ${name}`;
	rest %= size;
	if (at < lastSplit && rest >= UNITS[at + 1][0])
		text += ` ${Math.floor(rest / UNITS[at + 1][0])} ${UNITS[at + 1][1]}`;
	return text;
}

// "now", "3 min ago", "in 2 h 5 min". Without seconds after a minute, so that the text rarely
// changes.
function relative(iso) {
	const seconds = (Date.parse(iso) - serverNow()) / 1000;
	if (Math.abs(seconds) < 1.5) return 'now';
	const text =
		Math.abs(seconds) < 60 ? Math.round(Math.abs(seconds)) + ' s' : duration(seconds, 2);
	return seconds < 0 ? `${text} ago` : `in ${text}`;
}

function exact(iso) {
	return iso.replace('T', ' ').replace(/Z$|\+00:00$/, ' UTC');
}

function isTime(iso) {
	return typeof iso === 'string' && Number.isFinite(Date.parse(iso));
}

// How long ago a time is. The title has the exact time.
export function ago(iso) {
	if (!isTime(iso)) return iso ? String(iso) : NONE;
	return h(
		'time',
		{
			datetime: iso,
			title: `${local.format(Date.parse(iso))} (${exact(iso)})`,
			'data-relative': '',
		},
		relative(iso),
	);
}

// A time in the reader's zone. The title has the exact time in UTC.
export function at(iso) {
	if (!isTime(iso)) return iso ? String(iso) : NONE;
	return h('time', { datetime: iso, title: exact(iso) }, local.format(Date.parse(iso)));
}

export function clockTime(milliseconds) {
	return clock.format(milliseconds);
}

// Writes the relative times of the page anew.
export function refreshTimes() {
	for (const element of document.querySelectorAll('time[data-relative]')) {
		const text = relative(element.dateTime);
		if (element.textContent !== text) element.textContent = text;
	}
}

export function bytes(value) {
	const sizes = ['B', 'kB', 'MB', 'GB', 'TB'];
	let number = Number(value);
	let at = 0;
	for (; number >= 1024 && at < sizes.length - 1; at++) number /= 1024;
	return `${rough(number)} ${sizes[at]}`;
}
