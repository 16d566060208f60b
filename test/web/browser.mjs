// What the checks of the page share: pgq-web, SQL, and pages in Chromium whose faults are collected.
import { spawn, execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import assert from 'node:assert/strict';

const { chromium } = createRequire(import.meta.url)('playwright-core'); // found by NODE_PATH
// Milliseconds for what ought to happen. It only ends checks that have failed.
export const PATIENCE = 1000 * Number(process.env.PG_TEST_TIMEOUT_DEFAULT ?? 180);
const running = new Set();
let failed = 0;

export const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
	args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
	timeout: PATIENCE,
});

// Starts pgq-web; returns { base, end }: its address, and a function that ends it.
export function serve(...options) {
	const web = spawn(process.env.PGQ_WEB, ['-U', 'monitor', ...options], {
		stdio: ['ignore', 'pipe', 'ignore'],
	});
	running.add(web);
	const ended = new Promise((resolve) => web.once('exit', resolve));
	const end = async () => {
		web.kill('SIGKILL');
		await ended;
		running.delete(web);
	};
	return new Promise((resolve, reject) => {
		let text = '';
		web.stdout.on('data', (more) => {
			text += more;
			const address = /^pgq-web: (http:\S+)\/$/m.exec(text);
			if (address) resolve({ base: address[1], end });
		});
		web.once('exit', (code) => reject(new Error(`pgq-web ended with ${code}: ${text}`)));
	});
}

// Runs SQL as the superuser, and returns the output of psql.
export function sql(text, database = process.env.PGDATABASE) {
	const options = ['-XAtq', '-v', 'ON_ERROR_STOP=1', '-U', process.env.OWNER, '-d', database];
	return execFileSync('psql', [...options, '-c', text], { encoding: 'utf8' }).trimEnd();
}

// Waits until a query returns a text.
export async function until(query, wanted) {
	let got;
	for (const end = Date.now() + PATIENCE; Date.now() < end; ) {
		got = sql(query);
		if (got === wanted) return;
		await new Promise((resolve) => setTimeout(resolve, 100));
	}
	assert.equal(got, wanted, query);
}

// Opens a page. `faults` gets errors of scripts, errors in the console, and dialogs of scripts of others.
export async function newPage(faults, options = {}) {
	const context = await browser.newContext({
		viewport: { width: 1280, height: 900 },
		locale: 'en-US',
		timezoneId: 'UTC',
		...options,
	});
	const page = await context.newPage();
	page.setDefaultTimeout(PATIENCE);
	page.on('pageerror', (error) => faults.push(`${page.url()}: ${error.message}`));
	page.on('dialog', (dialog) => {
		faults.push(`a script of others ran: ${dialog.message()}`);
		dialog.dismiss();
	});
	page.on('console', (message) => {
		if (message.type() === 'error') faults.push(`${page.url()}: ${message.text()}`);
	});
	return page;
}

// Runs a check with a page of its own, and prints "ok NAME" or "not ok NAME". refusals: requests may fail, which
// Chromium reports in the console.
export async function check(name, run, { refusals = false, ...options } = {}) {
	if (process.env.CHECK && !name.includes(process.env.CHECK)) return;
	const faults = [];
	const began = Date.now();
	const page = await newPage(faults, options);
	try {
		await run(page);
		const isRefusal = (fault) => /Failed to load resource|net::ERR_/.test(fault);
		assert.deepEqual(
			faults.filter((fault) => !(refusals && isRefusal(fault))),
			[],
		);
		console.log(`ok ${name}`);
	} catch (error) {
		failed++;
		const text = await page.innerText('body').catch(() => '');
		console.log(`not ok ${name}\n${error.stack}\n${page.url()}\n${text.slice(0, 3000)}`);
	}
	if (process.env.CHECK_TIMES) console.log(`${Date.now() - began} ms`);
	await page.context().close();
}

const cookies = new Map(); // by the address of pgq-web and the role: one login serves all checks

export async function logIn(page, base, role = 'operator', password = role + '-pw') {
	const known = cookies.get(base + role);
	if (known) return page.context().addCookies(known);
	await page.goto(base + '/login');
	await page.fill('#role', role);
	await page.fill('#password', password);
	await page.click('form button[type=submit]');
	await page.waitForSelector(`.role:has-text("${role}")`);
	cookies.set(base + role, await page.context().cookies());
}

// Goes to a view, and waits until its data are drawn.
export async function open(page, address) {
	await page.goto(address);
	await page.waitForSelector('main .panel, main .empty, main .error');
}

// Clicks a button, answers its question, and waits for the message. fields: what is typed by the names of the fields.
export async function act(page, button, message, fields = {}) {
	await (typeof button === 'string' ? page.locator(`main button:text-is("${button}")`) : button).first().click();
	for (const [name, value] of Object.entries(fields))
		await page.fill(`dialog [name="${name}"]`, value);
	const told = page.waitForSelector(`.message:has-text(${JSON.stringify(message)})`);
	await Promise.all([told, page.click('dialog button[type=submit]')]);
}

// Goes to a view without loading the page anew.
export async function change(page, address) {
	const drawn = page.waitForResponse(/\/api\/(?!live|health|history|session)/);
	await page.evaluate((to) => {
		history.pushState(null, '', to);
		dispatchEvent(new PopStateEvent('popstate'));
	}, address);
	if (!address.endsWith('/login')) await drawn;
	else drawn.catch(() => {});
	await page.waitForSelector('main .panel, main .empty, main .error');
}

export function fits(page) {
	return page.evaluate(
		() => document.documentElement.scrollWidth <= document.documentElement.clientWidth,
	);
}

export async function finish() {
	await browser.close();
	for (const web of running) web.kill('SIGKILL');
	process.exitCode = failed ? 1 : 0;
}
