// Speaks with pgq-web: see docs/web.md for the addresses. Keeps the session of the reader.
import { PREFIX } from './router.js';
import { setServerTime } from './format.js';

export let session = { role: null, readonly: true };
let sessionEnded = () => {};
let roleChanged = () => {};
const LONGEST = 30000; // milliseconds for an answer with data; an action may take longer

// Sets what is done when the server says that the session has ended, or that another tab has begun
// another one.
export function onSessionEnd(run) {
	sessionEnded = run;
}

// Sets what is done after a login or a logout.
export function onRole(run) {
	roleChanged = run;
}

// An error as the server reports it: message, detail and hint.
export class ApiError extends Error {
	constructor(status, { code, message, detail, hint }) {
		super(message ?? `The server answered with status ${status}.`);
		Object.assign(this, { status, code: code ?? String(status), detail, hint });
	}
}

// The error that says that no answer came.
export function unreachable(message = 'The page cannot reach pgq-web.') {
	return new ApiError(0, {
		code: 'connection',
		message,
		hint: 'Check that pgq-web runs. The page tries again by itself.',
	});
}

async function call(path, options) {
	let response;
	try {
		response = await fetch(PREFIX + path, { credentials: 'same-origin', ...options });
	} catch (error) {
		if (error.name === 'AbortError') throw error;
		throw unreachable(error.name === 'TimeoutError' ? 'pgq-web does not answer.' : undefined);
	}
	const isJson = (response.headers.get('content-type') ?? '').startsWith('application/json');
	let body = null;
	try {
		body = isJson ? await response.json() : null;
	} catch (error) {
		if (error.name === 'AbortError') throw error;
	}
	if (response.ok && body !== null) return body;
	const text = response.ok ? { message: 'The answer of pgq-web is not complete.' } : {};
	const error = new ApiError(response.status, body?.error ?? text);
	if (['login', 'csrf'].includes(error.code) && path !== '/api/login') sessionEnded();
	throw error;
}

// Asks for data. Members of `query` that are empty are left out.
export function get(path, query = {}, signal = undefined) {
	const filled = Object.entries(query).filter(
		([, value]) => value !== '' && value !== null && value !== undefined,
	);
	const search = new URLSearchParams(filled).toString();
	const signals = [AbortSignal.timeout(LONGEST), signal].filter(Boolean);
	return call('/api/' + path + (search ? '?' + search : ''), {
		signal: AbortSignal.any(signals),
	});
}

// Asks for the last hour of a queue, or of all (*). Without the right to read it, the answer has only a note.
export async function readHistory(queue, signal) {
	try {
		return await get('history', { queue }, signal);
	} catch (error) {
		if (error.status !== 403) throw error;
		return { notes: [error.message] };
	}
}

export function post(path, body) {
	return call('/api/' + path, {
		method: 'POST',
		headers: { 'Content-Type': 'application/json', 'X-PGQ-CSRF': session.csrf ?? '' },
		body: JSON.stringify(body),
	});
}

function keep(answer) {
	const before = session.role;
	session = answer;
	setServerTime(answer.now);
	if (before !== answer.role) roleChanged();
	return answer;
}

export async function readSession() {
	return keep(await get('session'));
}

export async function logIn(role, password) {
	return keep(await post('login', { role, password }));
}

export async function logOut() {
	return keep(await post('logout', {}));
}

// Whether the role may call the function of an action. The server also checks the rights on the queue.
export function mayRun(action) {
	return !session.role || !session.actions || session.actions.includes(action);
}

// Returns why actions cannot be run, or null if they can.
export function whyNoActions() {
	if (session.readonly)
		return 'pgq-web was started with --read-only, so actions are switched off.';
	if (!session.role) return 'Log in as a database role to run actions.';
	if (session.actions?.length === 0) return 'Your role may run no actions.';
	return null;
}
