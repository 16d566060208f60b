// The header and the menu of the page.
import { h, show } from './dom.js';
import { session } from './api.js';
import { ago } from './format.js';
import { badge, link, name } from './parts.js';
import { address } from './router.js';
import { nextTheme, theme, THEMES } from './settings.js';
import { brief } from './text.js';

// The path, the label, and the views that belong to the entry.
const MENU = [
	['/', 'Overview', ['overview', 'queue']],
	['/jobs', 'Jobs', ['jobs', 'job']],
	['/dead', 'Dead letters', ['dead']],
	['/schedules', 'Schedules', ['schedules']],
	['/handlers', 'Handlers', ['handlers']],
	['/batches', 'Batches', ['batches']],
	['/locks', 'Locks', ['locks']],
	['/rates', 'Rates', ['rates']],
	['/runs', 'Named runs', ['runs']],
	['/capacity', 'Capacity', ['capacity']],
];

const menu = document.getElementById('menu');
let shown = null; // what drawFrame() was last called with
let isOpen = false;

// Opens or closes the menu on a narrow screen.
export function openMenu(open) {
	if (open === isOpen) return;
	isOpen = open;
	drawFrame(shown);
}

function database() {
	const { database: base, host, server_version: server, extension_version: version } = session;
	const text = base ? brief(`${base} on ${host ?? 'this machine'}`, 60) : '';
	const title = [
		version ? `pgq_ext ${version}, PostgreSQL ${server}` : null,
		session.reader ? `read as role ${brief(session.reader)}` : null,
	];
	return h('span', { class: 'database', title: title.filter(Boolean).join(', ') }, text);
}

function role(leave) {
	if (session.role) {
		return [
			h('span', { class: 'role', title: 'You act as this role.' }, name(session.role, 30)),
			h('button', { on: { click: leave } }, 'Log out'),
		];
	}
	return session.readonly ? badge('read-only') : link('/login', {}, 'Log in');
}

function drawHeader({ view, connection, leave }) {
	const isStale = Boolean(view?.error && view.data);
	const toggle = () => openMenu(!isOpen);
	show(
		document.getElementById('top'),
		h(
			'button',
			{
				class: 'menu-button',
				'aria-expanded': String(isOpen),
				'aria-controls': 'menu',
				on: { click: toggle },
			},
			'Menu',
		),
		h('a', { class: 'logo', href: address('/') }, 'pgq'),
		database(),
		h('span', { class: 'space' }),
		isStale
			? h('span', { class: 'stale', title: view.error.message }, 'Data of ', ago(view.readAt))
			: null,
		badge(isStale ? 'stale' : connection),
		role(leave),
	);
}

function drawMenu({ view }) {
	const entry = ([path, label, views]) => {
		const isPresent = views.includes(view?.name);
		const props = { href: address(path), 'aria-current': isPresent ? 'page' : null };
		return h('li', null, h('a', props, label));
	};
	const change = () => {
		nextTheme();
		drawFrame(shown);
	};
	const colours = h('button', { class: 'plain', on: { click: change } }, THEMES[theme()]);
	show(menu, h('ul', null, MENU.map(entry), h('li', null, colours)));
	menu.classList.toggle('open', isOpen);
}

// Draws the frame. view: the present view, or null; connection: live, polling or paused; leave: ends
// the login.
export function drawFrame(state) {
	shown = state;
	drawHeader(state);
	drawMenu(state);
}
