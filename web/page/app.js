// The life of a view: the view of the present address is loaded, drawn, and loaded again when the
// server has changed.
import { h, show } from './lib/dom.js';
import * as frame from './lib/frame.js';
import * as router from './lib/router.js';
import * as live from './lib/live.js';
import { session, readSession, onRole, onSessionEnd, logOut, ApiError, unreachable } from './lib/api.js';
import { setRefresh } from './lib/actions.js';
import { say } from './lib/dialog.js';
import { refreshTimes, serverNow } from './lib/format.js';
import { empty, errorBox, link, skeleton } from './lib/parts.js';
import { applyTheme } from './lib/settings.js';

// Each module has title(view) -> text, load(view, signal) -> data, and draw(data, view) -> nodes.
// isLive(view) says whether the data are read again when the server has changed; without it they
// are.
const VIEWS = {
	overview: () => import('./views/overview.js'),
	queue: () => import('./views/queue.js'),
	jobs: () => import('./views/jobs.js'),
	job: () => import('./views/job.js'),
	dead: () => import('./views/dead.js'),
	schedules: () => import('./views/schedules.js'),
	handlers: () => import('./views/handlers.js'),
	batches: () => import('./views/batches.js'),
	locks: () => import('./views/locks.js'),
	rates: () => import('./views/rates.js'),
	runs: () => import('./views/runs.js'),
	capacity: () => import('./views/capacity.js'),
	login: () => import('./views/login.js'),
};

// Reads the module of a view.
async function moduleOf(name) {
	try {
		return await VIEWS[name]();
	} catch {
		throw unreachable();
	}
}

const main = document.getElementById('main');
let view = null; // { name, params, query, state, data, module, error, controller, redraw }
let connection = 'paused';

function drawFrame() {
	frame.drawFrame({ view, connection, leave });
}

async function leave() {
	try {
		await logOut();
	} catch (error) {
		say(error.message);
	}
	drawFrame();
	load();
}

function draw() {
	if (view.data !== null) {
		show(main, view.module.draw(view.data, view));
	} else if (view.error) {
		const actions =
			view.error.code === 'login'
				? [
						link('/login', {}, 'Log in'),
						session.require_login
							? null
							: h('button', { on: { click: leave } }, 'Go on without a login'),
					]
				: [
						h('button', { on: { click: load } }, 'Try again'),
						link('/', {}, 'Go to the overview'),
					];
		show(main, errorBox(view.error, actions));
	} else {
		show(main, skeleton());
	}
}

// Reads the data of the view and draws it. An error leaves the data that are shown, and says how
// old they are.
async function load() {
	const asked = view;
	asked.controller?.abort();
	const controller = (asked.controller = new AbortController());
	try {
		asked.module ??= await moduleOf(asked.name);
		document.title = `${asked.module.title(asked)} - pgq`;
		const data = await asked.module.load(asked, controller.signal);
		Object.assign(asked, { data, error: null, readAt: new Date(serverNow()).toISOString() });
	} catch (error) {
		if (error.name === 'AbortError') return;
		asked.error =
			error instanceof ApiError
				? error
				: new ApiError(0, { message: 'The page has a fault.', detail: String(error) });
		if (error.status >= 400 && error.status < 500 && error.status !== 429) asked.data = null; // for example: the job does not exist any more
	}
	if (view !== asked || asked.controller !== controller) return;
	try {
		draw();
	} catch (error) {
		show(
			main,
			errorBox(
				new ApiError(0, {
					message: 'The page cannot show this answer.',
					detail: String(error),
				}),
			),
		);
	}
	drawFrame();
}

// Shows the view of the present address. A search in the same view keeps what is shown until the
// answer comes.
function open({ isSearch = false } = {}) {
	const { view: name, params, query } = router.match(location);
	const isSame =
		view?.name === name &&
		JSON.stringify([view.params, view.query]) === JSON.stringify([params, query]);
	if (isSame) return;
	view?.controller?.abort();
	frame.openMenu(false);
	if (name === null) {
		view = null;
		show(main, empty('There is no such page.', link('/', {}, 'Go to the overview')));
		return drawFrame();
	}
	if (isSearch && view?.name === name) {
		Object.assign(view, { params, query });
	} else {
		const own = {
			name,
			params,
			query,
			state: {}, // what the view keeps between two drawings
			data: null,
			module: null,
			error: null,
			redraw: () => view === own && draw(),
		};
		view = own;
		main.scrollTop = 0;
		scrollTo(0, 0);
		draw();
		main.focus({ preventScroll: true });
	}
	drawFrame();
	const loaded = load();
	if (view) view.loaded = loaded;
}

function onKey(event) {
	const isTyping = event.target.closest?.('input, textarea, select, dialog');
	if (event.key === 'Escape') frame.openMenu(false);
	if (isTyping || event.altKey || event.ctrlKey || event.metaKey) return;
	const search = document.querySelector('[data-search]');
	if (event.key === '/' && search) {
		event.preventDefault();
		search.focus();
		search.select();
	}
}

async function start() {
	applyTheme();
	document.querySelector('.skip').addEventListener('click', (event) => {
		event.preventDefault();
		main.focus();
	});
	addEventListener('keydown', onKey);
	setRefresh(() => view && load());
	onRole(live.reopen);
	onSessionEnd(async () => {
		await readSession().catch(() => {});
		drawFrame();
		if (view?.data) draw();
	});
	setInterval(() => !document.hidden && refreshTimes(), 1000);
	router.start(open);
	drawFrame();
	show(main, skeleton());
	await readSession().catch(() => {}); // the view shows the error
	open();
	// The modules of the other views come after the first view; then no view needs a file any more.
	if (view) await view.loaded;
	for (const name of Object.keys(VIEWS)) moduleOf(name).catch(() => {});
	live.start(
		async () => {
			if (session.role === null && !session.database) await readSession().catch(() => {});
			const isLive = view?.module?.isLive?.(view) ?? true;
			if (view && view.error?.code !== 'login' && isLive) await load();
		},
		(state) => {
			connection = state;
			drawFrame();
		},
	);
}

start();
