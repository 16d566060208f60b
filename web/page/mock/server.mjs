// Serves the page with canned answers, for development and tests of the page. It is no part of
// pgq-web.
// node server.mjs [--port N] [--prefix /pgq] [--kind plain|hostile|empty] [--queues N]
// [--read-only] [--hide-payload] [--slow MILLISECONDS] [--no-live]
// Prints the address. Any role can log in with the password "secret". The password "limit" answers
// 429. An argument that contains "fail" lets an action fail.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { extname, join, normalize } from 'node:path';
import { parseArgs } from 'node:util';
import { makeData } from './data.mjs';

const { values: options } = parseArgs({
	options: {
		port: { type: 'string', default: '0' },
		prefix: { type: 'string', default: '' },
		kind: { type: 'string', default: 'plain' },
		queues: { type: 'string' },
		'read-only': { type: 'boolean' },
		'hide-payload': { type: 'boolean' },
		slow: { type: 'string', default: '0' },
		'no-live': { type: 'boolean' },
	},
});
const root = fileURLToPath(new URL('..', import.meta.url));
const data = makeData({
	kind: options.kind,
	queues: options.queues && Number(options.queues),
	hidePayload: options['hide-payload'],
});
const TYPES = {
	'.html': 'text/html; charset=utf-8',
	'.js': 'text/javascript; charset=utf-8',
	'.css': 'text/css; charset=utf-8',
	'.svg': 'image/svg+xml',
};
const CSP =
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";
const sessions = new Map(); // the value of the cookie -> { role, csrf }
let lastSession = 0;
const streams = new Set();

const session = ({ role, csrf }) => ({
	role,
	readonly: Boolean(options['read-only']),
	hide_payload: Boolean(options['hide-payload']),
	csrf,
	database: 'shop',
	host: 'db1.example.org',
	server_version: '15.9',
	extension_version: '0.2',
	now: new Date().toISOString(),
});

class Refusal extends Error {
	constructor(status, code, message, hint = null) {
		super(message);
		Object.assign(this, { status, body: { error: { code, message, detail: null, hint } } });
	}
}

function sessionOf(request) {
	const [, cookie] = /pgq=([^;]*)/.exec(request.headers.cookie ?? '') ?? [];
	return sessions.get(cookie) ?? { role: null, csrf: 'token-0' };
}

// Begins a session, and ends the one of the request.
function begin(role, request, response) {
	sessions.delete(/pgq=([^;]*)/.exec(request.headers.cookie ?? '')?.[1]);
	const name = `session-${++lastSession}`;
	sessions.set(name, { role, csrf: `token-${lastSession}` });
	response.setHeader(
		'Set-Cookie',
		`pgq=${name}; HttpOnly; SameSite=Strict; Path=${options.prefix || '/'}`,
	);
	return session(sessions.get(name));
}

async function bodyOf(request) {
	let text = '';
	for await (const part of request) text += part;
	if (request.headers['x-pgq-csrf'] !== sessionOf(request).csrf)
		throw new Refusal(
			403,
			'csrf',
			'the token of the page is not valid',
			'Load the page again.',
		);
	return JSON.parse(text || '{}');
}

function act(body, role) {
	if (options['read-only'])
		throw new Refusal(403, 'readonly', 'pgq-web was started with --read-only');
	if (!role) throw new Refusal(401, 'login', 'log in first');
	if (JSON.stringify(body).includes('fail'))
		throw new Refusal(
			403,
			'42501',
			`role "${role}" may not ${body.action}`,
			'Ask for the right admin on the queue.',
		);
	if (body.action === 'purge_queue' && body.confirm !== body.queue)
		throw new Refusal(400, 'confirm', 'the name of the queue is not confirmed');
	if (body.action === 'pause_queue') data.paused.add(body.queue);
	if (body.action === 'resume_queue') data.paused.delete(body.queue);
	for (const stream of streams) stream.write('event: tick\ndata: 1\n\n');
	return {
		result:
			{
				redrive: '12',
				purge_queue: '345',
				enqueue: '9007199254740999',
				cancel: 'ready',
				run_again: '77',
				run_schedule: '78',
				cancel_batch: '5',
			}[body.action] ?? true,
	};
}

async function answer(name, query, request, response) {
	if (name === 'session') return session(sessionOf(request));
	if (name === 'login' || name === 'logout') {
		const { role: asked, password } = await bodyOf(request);
		if (name === 'login' && password === 'limit')
			throw new Refusal(429, 'limit', 'too many logins have failed', 'Wait for a minute.');
		if (name === 'login' && password !== 'secret')
			throw new Refusal(401, 'login', 'the role or the password is wrong');
		if (options['read-only'])
			throw new Refusal(403, 'readonly', 'pgq-web was started with --read-only');
		return begin(name === 'login' ? asked : null, request, response);
	}
	const [, cookie] = /pgq=([^;]*)/.exec(request.headers.cookie ?? '') ?? [];
	if (cookie && !sessions.has(cookie))
		throw new Refusal(
			401,
			'login',
			'the session has ended',
			'Log in again, or log out to go on without a login.',
		);
	if (name === 'action') return act(await bodyOf(request), sessionOf(request).role);
	const known = [
		'health',
		'overview',
		'history',
		'queue',
		'jobs',
		'job',
		'dead',
		'schedules',
		'handlers',
		'batches',
		'locks',
		'rates',
	];
	if (!known.includes(name))
		throw new Refusal(404, 'no such path', `there is no path /api/${name}`);
	if (name === 'jobs' && !query.queue && !query.id)
		throw new Refusal(400, 'argument', 'the argument "queue" is missing');
	const found = data[name](query);
	if (!found)
		throw new Refusal(
			404,
			'42704',
			`queue "${query.name}" does not exist`,
			'SELECT queue FROM pgq_ext.queue shows all queues.',
		);
	return found;
}

function live(response) {
	if (options['no-live']) throw new Refusal(503, 'busy', 'too many pages are open');
	response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
	response.write(': hello\n\n');
	streams.add(response);
	const timer = setInterval(() => response.write('event: tick\ndata: 1\n\n'), 2000);
	response.on('close', () => {
		clearInterval(timer);
		streams.delete(response);
	});
}

async function file(path, response) {
	let name = normalize(path);
	if (!(extname(name) in TYPES) || /^\/(queues|jobs)\//.test(name)) name = '/index.html';
	let content = await readFile(join(root, name));
	if (name === '/index.html') content = content.toString().replaceAll('@PREFIX@', options.prefix);
	response.writeHead(200, {
		'Content-Type': TYPES[extname(name)],
		'Content-Security-Policy': CSP,
		'X-Content-Type-Options': 'nosniff',
		'Referrer-Policy': 'no-referrer',
	});
	response.end(content);
}

const server = createServer(async (request, response) => {
	const url = new URL(request.url, 'http://localhost');
	const path = url.pathname.startsWith(options.prefix)
		? url.pathname.slice(options.prefix.length)
		: '/missing.js';
	try {
		if (path === '/api/live') return live(response);
		if (!path.startsWith('/api/')) return await file(path, response);
		await new Promise((resolve) => setTimeout(resolve, Number(options.slow)));
		const body = JSON.stringify(
			await answer(path.slice(5), Object.fromEntries(url.searchParams), request, response),
		);
		response.writeHead(200, {
			'Content-Type': 'application/json; charset=utf-8',
			'Cache-Control': 'no-store',
		});
		response.end(body);
	} catch (error) {
		const status = error.status ?? (error.code === 'ENOENT' ? 404 : 500);
		response.writeHead(status, { 'Content-Type': 'application/json; charset=utf-8' });
		response.end(
			JSON.stringify(error.body ?? { error: { code: 'mock', message: String(error) } }),
		);
	}
});
server.listen(Number(options.port), '127.0.0.1', () =>
	console.log(`http://127.0.0.1:${server.address().port}${options.prefix}/`),
);
