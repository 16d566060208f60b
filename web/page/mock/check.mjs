// Tries the page in Chromium against the mock. Needs playwright-core and Debian's chromium:
// NODE_PATH is not read by ES modules, so run it as:
// PLAYWRIGHT=/path/to/node_modules/playwright-core node check.mjs
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import assert from 'node:assert/strict';

const { chromium } = createRequire(import.meta.url)(process.env.PLAYWRIGHT ?? 'playwright-core');
const server = fileURLToPath(new URL('server.mjs', import.meta.url));
const started = [];
const faults = [];
let passed = 0;
let failed = 0;

function serve(...options) {
	const process_ = spawn(process.execPath, [server, ...options], {
		stdio: ['ignore', 'pipe', 'inherit'],
	});
	started.push(process_);
	return new Promise((resolve) =>
		process_.stdout.once('data', (text) =>
			resolve({ base: String(text).trim().replace(/\/$/, ''), process: process_ }),
		),
	);
}

const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
	args: ['--no-sandbox', '--disable-gpu'],
});

async function newPage(options = {}) {
	const context = await browser.newContext({
		viewport: { width: 1280, height: 900 },
		...options,
	});
	const page = await context.newPage();
	page.setDefaultTimeout(10000);
	page.on('pageerror', (error) => faults.push(`${page.url()}: ${error.message}`));
	page.on('dialog', (dialog) => {
		faults.push(`script of others ran: ${dialog.message()}`);
		dialog.dismiss();
	});
	page.on(
		'console',
		(message) =>
			/Content Security Policy|Refused/.test(message.text()) &&
			faults.push(`${page.url()}: ${message.text()}`),
	);
	return page;
}

async function check(name, run) {
	faults.length = 0;
	const page = await newPage();
	try {
		await run(page);
		assert.deepEqual(faults, []);
		passed++;
		console.log(`ok ${name}`);
	} catch (error) {
		failed++;
		console.log(`not ok ${name}\n${error.stack}`);
	}
	await page.context().close();
}

async function logIn(page, base, password = 'secret') {
	await page.goto(base + '/login');
	await page.fill('#role', 'operator');
	await page.fill('#password', password);
	await page.click('form button[type=submit]');
}

const VIEWS = [
	'/',
	'/queues/mail',
	'/jobs',
	'/jobs?queue=mail',
	'/jobs/9007199254740003',
	'/dead',
	'/dead?by=job',
	'/schedules',
	'/handlers',
	'/batches',
	'/locks',
	'/rates',
	'/login',
];
const plain = await serve();
const hostile = await serve('--kind', 'hostile', '--queues', '10000', '--prefix', '/pgq');
const empty = await serve('--kind', 'empty', '--read-only', '--hide-payload', '--no-live');

for (const [name, { base }] of Object.entries({ plain, hostile, empty })) {
	await check(`${name}: each view has no fault and fits into 360 pixels`, async (page) => {
		await page.setViewportSize({ width: 360, height: 740 });
		for (const path of VIEWS) {
			await page.goto(base + path);
			await page.waitForSelector('.panel, .empty, .error');
			assert.equal(
				await page.evaluate(
					() =>
						document.documentElement.scrollWidth <=
						document.documentElement.clientWidth,
				),
				true,
				`${path} is too wide`,
			);
		}
	});
}

await check('hostile names lead to their own pages, and none becomes markup', async (page) => {
	await page.goto(hostile.base + '/');
	for (const part of ['<img', '"><script', '日本語', 'a/b', 'DROP TABLE']) {
		await page.fill('input[data-search]', part);
		await page.locator('tbody a', { hasText: part }).first().click();
		await page.waitForFunction(
			(text) => document.querySelector('h1')?.textContent.includes(text),
			part,
		);
		assert.equal(await page.locator('main .error').count(), 0, part);
		await page.goBack();
		await page.waitForSelector('tbody tr');
	}
	assert.equal(await page.locator('main img, main script').count(), 0);
});

await check('a wrong password is told, and the right one allows actions', async (page) => {
	await logIn(page, plain.base, 'wrong');
	await page.waitForSelector('.error:has-text("role or the password")');
	await logIn(page, plain.base);
	await page.waitForSelector('.role:has-text("operator")');
	await page.click('tbody a:has-text("mail")');
	await page.click('button:has-text("Pause")');
	await page.waitForSelector('dialog strong:has-text("mail")');
	await page.keyboard.press('Escape');
	await page.waitForSelector('dialog', { state: 'detached' });
	await page.click('button:has-text("Pause")');
	await page.click('dialog button[type=submit]');
	await page.waitForSelector('h1 .badge:has-text("paused")');
	await page.click('button:has-text("Resume")');
	await page.click('dialog button[type=submit]');
	await page.waitForSelector('h1 .badge', { state: 'detached' });
});

await check('purge asks for the name of the queue', async (page) => {
	await logIn(page, plain.base);
	await page.waitForSelector('.role');
	await page.goto(plain.base + '/queues/mail');
	await page.click('button:has-text("Purge")');
	assert.equal(await page.isDisabled('dialog button[type=submit]'), true);
	await page.fill('dialog input', 'Mail');
	assert.equal(await page.isDisabled('dialog button[type=submit]'), true);
	await page.fill('dialog input', 'mail');
	await page.click('dialog button[type=submit]');
	await page.waitForSelector('.message:has-text("345 jobs of mail were deleted")');
});

await check('redrive of an error names it, and sends its pattern', async (page) => {
	await logIn(page, plain.base);
	await page.waitForSelector('.role');
	await page.goto(plain.base + '/dead?queue=mail');
	await page.locator('tr', { hasText: 'no such mailbox' }).getByText('Redrive').click();
	await page.waitForSelector('dialog strong:has-text("no such mailbox: ann@example.org")');
	const sent = page.waitForRequest(/api\/action/);
	await page.click('dialog button[type=submit]');
	assert.equal((await sent).postDataJSON().error_like, 'no such mailbox: ann@example.org');
	await page.waitForSelector('.message:has-text("12 dead letters of mail")');
});

await check('an error of an action shows its code and hint in the dialog', async (page) => {
	await logIn(page, plain.base);
	await page.waitForSelector('.role');
	await page.goto(plain.base + '/queues/mail');
	await page.click('button:has-text("Enqueue")');
	await page.fill('dialog textarea', '{"fail": 12345678901234567890}');
	await page.click('dialog button[type=submit]');
	await page.waitForSelector('dialog .error:has-text("42501"):has-text("Hint")');
	await page.fill('dialog textarea', '{"n": 12345678901234567890}');
	const [request] = await Promise.all([
		page.waitForRequest(/api\/action/),
		page.click('dialog button[type=submit]'),
	]);
	assert.equal(request.postDataJSON().payload, '{"n": 12345678901234567890}');
});

await check('actions without a login say why they are off', async (page) => {
	await page.goto(empty.base + '/dead?queue=mail');
	await page.waitForSelector('.empty');
	await logIn(page, plain.base);
	await page.waitForSelector('.role');
	await page.click('button:has-text("Log out")');
	await page.waitForSelector('a:has-text("Log in")');
	await page.goto(plain.base + '/queues/mail');
	await page.dispatchEvent('button:has-text("Pause")', 'click');
	await page.waitForSelector('.message:has-text("Log in")');
	assert.equal(await page.locator('dialog').count(), 0);
});

await check('the keyboard reaches the filter, the rows and a job', async (page) => {
	await page.goto(plain.base + '/jobs?queue=mail');
	await page.waitForSelector('tbody tr');
	await page.keyboard.press('/');
	assert.equal(await page.evaluate(() => document.activeElement.id), 'filter-id');
	await page.locator('tbody tr').first().focus();
	await page.keyboard.press('ArrowDown');
	await page.keyboard.press('ArrowDown');
	await page.waitForTimeout(2500); // a refresh must not move the focus
	assert.equal(
		await page.evaluate(() =>
			[...document.activeElement.parentNode.children].indexOf(document.activeElement),
		),
		2,
	);
	await page.keyboard.press('Enter');
	await page.waitForSelector('h1:has-text("Job 9007199254740002")');
});

await check('numbers beyond 2^53 are exact', async (page) => {
	await page.goto(plain.base + '/');
	await page.waitForSelector('td:has-text("9,007,199,254,740,993")');
	await page.goto(plain.base + '/jobs/9007199254740003');
	await page.waitForSelector('pre:has-text("9007199254740993")');
});

await check('JSON is laid out without a change of its content', async (page) => {
	await page.goto(plain.base + '/');
	const result = await page.evaluate(async () => {
		const { layOut, likePattern } = await import('/lib/text.js');
		const samples = [
			'{}',
			'[]',
			'1',
			'"a"',
			'{"a": {}, "b": [], "c": [[1, [2]], {"d": "x, {y: \\\\"}]}',
			'{"q": "\\"", "n": 12345678901234567890.10, "e": 1e400, "t": true, "z": null}',
		];
		const squeeze = (text) => text.replace(/\s+/g, '');
		const changed = samples.filter((text) => squeeze(layOut(text)) !== squeeze(text));
		const long = '{"text": "' + 'a '.repeat(4000000) + '", "more": [1';
		if (!layOut(long).includes('a '.repeat(4000000) + '",\n  "more": [\n    1'))
			changed.push('long');
		if (layOut('{"a":{"b":[]}}') !== '{\n  "a": {\n    "b": []\n  }\n}') changed.push('shape');
		const like = likePattern('100% of a_b\\c');
		if (like.pattern !== '100\\% of a\\_b\\\\c' || !like.isWhole) changed.push('pattern');
		const cut = likePattern('Ω'.repeat(600));
		if (!cut.pattern.endsWith('Ω%') || cut.isWhole) changed.push('long pattern');
		return changed;
	});
	assert.deepEqual(result, []);
});

await check('a payload of 1 MB is read on demand and shown in parts', async (page) => {
	await page.goto(hostile.base + '/jobs/9007199254740007');
	await page.click('button:has-text("Read it")');
	await page.click('button:has-text("Show all of")');
	await page.waitForFunction(() =>
		[...document.querySelectorAll('pre')].some((pre) => pre.textContent.length > 900000),
	);
	await page.click('button:has-text("Hide payloads")');
	await page.waitForFunction(
		() => ![...document.querySelectorAll('pre')].some((pre) => pre.textContent.length > 900000),
	);
});

await check('a lost connection keeps the data and says how old they are', async (page) => {
	const own = await serve();
	await page.goto(own.base + '/');
	await page.waitForSelector('.badge:has-text("live")');
	own.process.kill();
	await page.waitForSelector('.stale', { timeout: 20000 });
	assert.ok((await page.locator('tbody tr').count()) > 0);
});

await check(
	'a session that has ended is told, and the reader can go on without it',
	async (page) => {
		await logIn(page, plain.base);
		await page.waitForSelector('.role');
		await page.context().addCookies([{ name: 'pgq', value: 'ended', url: plain.base }]);
		await page.goto(plain.base + '/');
		await page.click('button:has-text("Go on without a login")');
		await page.waitForSelector('tbody tr');
		await page.waitForSelector('a:has-text("Log in")');
	},
);

await check('without events the page asks by itself', async (page) => {
	await page.goto(empty.base + '/');
	await page.waitForSelector('.badge:has-text("polling")');
	await page.waitForRequest(/api\/overview/, { timeout: 15000 });
});

await browser.close();
for (const process_ of started) process_.kill();
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
