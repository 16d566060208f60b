// The frame of the page: the header, the menu, and the view of the present address, which is
// loaded, drawn, and loaded again when the server has changed.
import { h, show } from './lib/dom.js';
import * as router from './lib/router.js';
import * as live from './lib/live.js';
import { session, readSession, onSessionEnd, logOut, ApiError } from './lib/api.js';
import { setRefresh } from './lib/actions.js';
import { say } from './lib/dialog.js';
import { refreshTimes, ago } from './lib/format.js';
import { badge, empty, errorBox, link, skeleton } from './lib/parts.js';
import { brief } from './lib/text.js';
import { applyTheme, nextTheme, theme, THEMES } from './lib/settings.js';

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
	login: () => import('./views/login.js'),
};

const MENU = [
	['/', 'Overview'],
	['/jobs', 'Jobs'],
	['/dead', 'Dead letters'],
	['/schedules', 'Schedules'],
	['/handlers', 'Handlers'],
	['/batches', 'Batches'],
	['/locks', 'Locks'],
	['/rates', 'Rates'],
];

const main = document.getElementById('main');
let view = null; // { name, params, query, state, data, module, error, controller, redraw }
let connection = 'paused';
let isMenuOpen = false;

function drawFrame() {
	const database = session.database
		? brief(`${session.database} on ${session.host ?? 'this machine'}`, 60)
		: '';
	const stale =
		view?.error && view.data
			? h(
					'span',
					{ class: 'stale', title: view.error.message },
					'Cannot read. Data of ',
					ago(view.readAt),
				)
			: null;
	show(
		document.getElementById('top'),
		h(
			'button',
			{
				class: 'menu-button',
				'aria-expanded': String(isMenuOpen),
				'aria-controls': 'menu',
				on: { click: () => openMenu(!isMenuOpen) },
			},
			'Menu',
		),
		h('a', { class: 'logo', href: router.address('/') }, 'pgq'),
		h(
			'span',
			{
				class: 'database',
				title: session.extension_version
					? `pgq_ext ${session.extension_version}, PostgreSQL ${session.server_version}`
					: null,
			},
			database,
		),
		h('span', { class: 'space' }),
		stale,
		badge(stale ? 'stale' : connection),
		session.role
			? [
					h(
						'span',
						{ class: 'role', title: 'You act as this database role.' },
						h('bdi', null, brief(session.role, 30)),
					),
					h('button', { on: { click: leave } }, 'Log out'),
				]
			: session.readonly
				? badge('read-only')
				: link('/login', {}, 'Log in'),
	);
	const present = router.address(
		view?.name === 'queue' ? '/' : view?.name === 'job' ? '/jobs' : '/' + (view?.name ?? ''),
	);
	const isPresent = (path) =>
		router.address(path) === present || (path === '/' && view?.name === 'overview');
	show(
		document.getElementById('menu'),
		h(
			'ul',
			null,
			MENU.map(([path, label]) =>
				h(
					'li',
					null,
					h(
						'a',
						{
							href: router.address(path),
							'aria-current': isPresent(path) ? 'page' : null,
						},
						label,
					),
				),
			),
			h(
				'li',
				null,
				h(
					'button',
					{
						class: 'plain',
						title: 'Change the colours of the page',
						on: {
							click: () => {
								nextTheme();
								drawFrame();
							},
						},
					},
					THEMES[theme()],
				),
			),
		),
	);
	document.getElementById('menu').classList.toggle('open', isMenuOpen);
}

function openMenu(open) {
	isMenuOpen = open;
	drawFrame();
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
						h('button', { on: { click: leave } }, 'Go on without a login'),
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
		asked.module ??= await VIEWS[asked.name]();
		document.title = `${asked.module.title(asked)} - pgq`;
		const data = await asked.module.load(asked, controller.signal);
		Object.assign(asked, { data, error: null, readAt: new Date().toISOString() });
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
	isMenuOpen = false;
	if (name === null) {
		view = null;
		show(main, empty('There is no such page.', link('/', {}, 'Go to the overview')));
		return drawFrame();
	}
	if (isSearch && view?.name === name) {
		Object.assign(view, { params, query });
	} else {
		view = {
			name,
			params,
			query,
			state: {},
			data: null,
			module: null,
			error: null,
			redraw: () => draw(),
		};
		main.scrollTop = 0;
		scrollTo(0, 0);
		draw();
		main.focus({ preventScroll: true });
	}
	drawFrame();
	load();
}

function onKey(event) {
	const isTyping = event.target.closest?.('input, textarea, select, dialog');
	if (event.key === 'Escape' && isMenuOpen) openMenu(false);
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
	live.start(
		async () => {
			if (session.role === null && !session.database) await readSession().catch(() => {});
			if (view && view.error?.code !== 'login' && (view.module?.isLive?.(view) ?? true))
				load();
		},
		(state) => {
			connection = state;
			drawFrame();
		},
	);
}

start();
