// Tells the page when to ask for data again. The server sends an event when something has changed.
// If events do not arrive, the page asks every few seconds instead. A page in a hidden tab asks for
// nothing.
import { PREFIX } from './router.js';

const POLL = 10000; // milliseconds between two questions without events
const SLOW = 15000; // the same with events: charts and percentiles change also if no job does
const RETRY = 60000; // milliseconds after which events are tried again
const LEAST = 2000; // milliseconds between two refreshes

let source = null;
let poll = 0;
let retry = 0;
let waiting = 0;
let last = 0;
let pause = LEAST;
let refresh = () => {};
let report = () => {};

// Refreshes soon. The more time the last refresh has taken, the longer is the pause before the next
// one, so that the page cannot keep a busy server busy.
function tick() {
	if (document.hidden || waiting) return;
	const wait = Math.max(0, last + pause - Date.now());
	waiting = setTimeout(async () => {
		const began = Date.now();
		await refresh();
		last = Date.now();
		pause = Math.max(LEAST, 10 * (last - began));
		waiting = 0;
	}, wait);
}

function pollEvery(milliseconds) {
	clearInterval(poll);
	poll = setInterval(tick, milliseconds);
}

function usePolling() {
	source?.close();
	source = null;
	report('polling');
	pollEvery(POLL);
	clearTimeout(retry);
	retry = setTimeout(open, RETRY);
}

function open() {
	source?.close();
	source = new EventSource(PREFIX + '/api/live');
	source.addEventListener('tick', tick);
	source.onopen = () => {
		pollEvery(SLOW);
		report('live');
	};
	source.onerror = usePolling;
}

function close() {
	source?.close();
	source = null;
	clearInterval(poll);
	clearTimeout(retry);
	clearTimeout(waiting);
	waiting = 0;
	report('paused');
}

// Asks for events anew, after a login or a logout.
export function reopen() {
	if (source || retry) open();
}

// Calls `refreshPage` when data may have changed, and `reportState` with live, polling or paused.
export function start(refreshPage, reportState) {
	refresh = refreshPage;
	report = reportState;
	last = Date.now(); // the data have just been read
	document.addEventListener('visibilitychange', () => {
		if (document.hidden) return close();
		open();
		tick();
	});
	addEventListener('pagehide', close);
	addEventListener('pageshow', (event) => event.persisted && !document.hidden && open());
	if (!document.hidden) open();
}
