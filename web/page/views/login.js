// The login: a database role and its password.
import { h } from '../lib/dom.js';
import { logIn, session } from '../lib/api.js';
import { address, go } from '../lib/router.js';
import { empty, errorBox, heading, link, name, panel } from '../lib/parts.js';

export const title = () => 'Log in';
export const isLive = () => false;

export async function load() {
	return {};
}

function loginForm({ state, redraw }) {
	const submit = async (event) => {
		event.preventDefault();
		if (state.isRunning) return;
		const { role, password } = Object.fromEntries(new FormData(event.currentTarget));
		Object.assign(state, { isRunning: true, error: null });
		redraw();
		try {
			await logIn(role, password);
			go(address('/'));
		} catch (error) {
			Object.assign(state, { isRunning: false, error });
			redraw();
			document.getElementById('password')?.select();
		}
	};
	return h(
		'form',
		{ class: 'login', on: { submit } },
		h(
			'div',
			{ class: 'field' },
			h('label', { for: 'role' }, 'Database role'),
			h('input', {
				id: 'role',
				name: 'role',
				autocomplete: 'username',
				required: true,
				autocapitalize: 'off',
				spellcheck: 'false',
			}),
		),
		h(
			'div',
			{ class: 'field' },
			h('label', { for: 'password' }, 'Password'),
			h('input', {
				id: 'password',
				name: 'password',
				type: 'password',
				autocomplete: 'current-password',
				required: true,
			}),
		),
		state.error ? errorBox(state.error) : null,
		h(
			'div',
			{ class: 'actions' },
			h(
				'button',
				{ type: 'submit', class: 'primary', 'aria-busy': String(Boolean(state.isRunning)) },
				state.isRunning ? 'Logging in' : 'Log in',
			),
		),
	);
}

export function draw(data, view) {
	if (session.readonly)
		return [
			heading('Log in'),
			empty(
				'pgq-web was started with --read-only, so nobody can log in.',
				link('/', {}, 'Go to the overview'),
			),
		];
	if (session.role)
		return [
			heading('Log in'),
			empty(
				['You are logged in as ', name(session.role), '.'],
				link('/', {}, 'Go to the overview'),
			),
		];
	return [
		heading('Log in'),
		panel(
			'As a database role',
			null,
			h(
				'p',
				{ class: 'quiet' },
				'You then see and change what this role may. The password is used for the connection to the database only.',
			),
			loginForm(view),
		),
	];
}
