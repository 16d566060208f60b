// Checks of the page: views, text of others, logins, rights, lost connections. The actions are in page_actions.mjs.
import assert from 'node:assert/strict';
import { serve, sql, check, logIn, open, change, fits, finish } from './browser.mjs';
import { checkActions } from './page_actions.mjs';
import { takePictures } from './pictures.mjs';

const web = await serve('--listen', '127.0.0.1:0');
const hidden = await serve('--listen', '127.0.0.1:0', '--read-only', '--hide-payload', '--prefix', '/pgq');
const idOf = (key) => sql(`SELECT job_id FROM pgq_ext.job WHERE unique_key = '${key}'`);
const markup = idOf('markup');
const attack = sql("SELECT job_id FROM pgq_ext.dead_letter WHERE queue = 'attacks'");
const finished = sql("SELECT min(job_id) FROM pgq_ext.finished_job WHERE result IS NOT NULL");
const child = sql("SELECT max(child_id) FROM pgq_ext.job_dependency");
const views = [
	'/', '/?find=mail', '/queues/mail', '/queues/thumbnails', '/jobs', '/jobs?queue=orders', `/jobs/${markup}`, `/jobs/${attack}`,
	`/jobs/${finished}`, `/jobs/${child}`, '/dead', '/dead?queue=mail', '/dead?by=job', '/schedules', '/handlers', '/batches',
	'/locks', '/rates', '/login',
];
for (const view of ['/runs', '/capacity'])
	if ((await fetch(`${web.base}/api${view}`)).ok) views.push(view);

if (process.env.PICTURES) {
	await takePictures(web.base, process.env.PICTURES);
	await finish();
	process.exit();
}

await check('each view: no error, nothing wider than a phone, and no markup of others', async (page) => {
	await logIn(page, web.base);
	for (const path of views) {
		await open(page, web.base + path);
		assert.equal(await page.locator('main .error').count(), 0, `${path} shows an error`);
		assert.equal(await page.locator('main img, main script, main b b, main i i').count(), 0, path);
		assert.ok(await fits(page), `${path} is too wide`);
		await page.setViewportSize({ width: 360, height: 740 });
		assert.ok(await fits(page), `${path} is too wide for a phone`);
		await page.setViewportSize({ width: 1280, height: 900 });
	}
});

await check('each view without a login, with --read-only, --hide-payload and --prefix', async (page) => {
	await page.setViewportSize({ width: 360, height: 740 });
	await open(page, hidden.base + '/');
	for (const path of views.slice(1)) {
		await change(page, hidden.base + path);
		assert.equal(await page.locator('main .error').count(), 0, `${path} shows an error`);
		assert.ok(await fits(page), `${path} is too wide for a phone`);
	}
});

await check('colours follow the system, and the choice of the reader', async (page) => {
	const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
	await open(page, web.base + '/rates');
	const dark = await back();
	await page.emulateMedia({ colorScheme: 'light' });
	const light = await back();
	assert.notEqual(light, dark);
	await page.click('#menu button:has-text("Colours")'); // light
	await page.click('#menu button:has-text("Colours")'); // dark
	assert.equal(await back(), dark);
	await page.reload();
	await page.waitForSelector('#menu button:has-text("dark")');
	assert.equal(await back(), dark);
}, { colorScheme: 'dark' });

await check('markup in names and payloads stays text', async (page) => {
	await logIn(page, web.base);
	await open(page, `${web.base}/jobs/${markup}`);
	await page.waitForSelector('pre:has-text("<script>alert(1)</script><img src=x onerror=alert(2)>")');
	await page.waitForSelector('dd:has-text("<b>group</b>")');
	await page.click('main dd a');
	await page.waitForSelector('h1:has-text("<img/src=x/onerror=alert(1)>")');
	await open(page, `${web.base}/jobs/${attack}`);
	await page.waitForSelector('pre:has-text("<script>alert(3)</script> 100% of a_b\\\\c")');
});

await check('addresses with special characters, and unicode', async (page) => {
	await logIn(page, web.base);
	for (const queue of ['a/b?c#d%41', '日本語']) {
		await open(page, web.base + '/');
		await page.click(`tbody a:has-text("${queue}")`);
		await page.waitForSelector(`h1:has-text("${queue}")`);
		await page.reload();
		await page.waitForSelector(`h1:has-text("${queue}")`);
		await page.click('main .panel a:has-text("All jobs")');
		await page.waitForSelector('tbody tr');
	}
	await open(page, `${web.base}/jobs/${idOf('unicode')}`);
	await page.waitForSelector('pre:has-text("grüße ☃ 😀")');
});

await check('numbers beyond 2^53 and fractions are exact', async (page) => {
	await logIn(page, web.base);
	await open(page, `${web.base}/jobs/${markup}`);
	await page.waitForSelector('pre:has-text("9007199254740993"):has-text("1.10")');
	await open(page, `${web.base}/jobs/${child}`);
	await page.waitForSelector('pre:has-text("12345678901234567890")');
	await open(page, `${web.base}/jobs/${finished}`);
	await page.waitForSelector('pre:has-text("9007199254740993")');
});

await check('a payload of 1 MB is read on demand, and shown in parts', async (page) => {
	await logIn(page, web.base);
	await open(page, `${web.base}/jobs/${idOf('large')}`);
	await page.click('button:has-text("Read it")');
	await page.click('button:has-text("Show all of")');
	const isWhole = () => [...document.querySelectorAll('pre')].some((pre) => pre.textContent.length > 1000000);
	await page.waitForFunction(isWhole);
	await page.click('button:has-text("Hide payloads")');
	await page.waitForSelector('p:has-text("Hidden")');
	assert.equal(await page.evaluate(isWhole), false);
});

await check('filters of jobs are part of the address', async (page) => {
	await logIn(page, web.base);
	await open(page, web.base + '/jobs');
	await page.fill('#filter-queue', 'orders');
	await page.fill('#filter-group', 'customer 3');
	await page.press('#filter-group', 'Enter');
	await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 6);
	assert.match(page.url(), /queue=orders.*group=customer/);
	await page.fill('#filter-payload', '{"order": 1010}');
	await page.press('#filter-payload', 'Enter');
	await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 1);
	await page.goBack();
	await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 6);
	await page.selectOption('#filter-state', 'leased');
	await page.waitForSelector('tbody .badge:has-text("in work")');
	await page.fill('#filter-id', child);
	await page.press('#filter-id', 'Enter');
	await page.waitForSelector(`h1:has-text("Job ${child}")`);
	await page.waitForSelector('.panel:has-text("Parents") tbody a');
});

await check('the keyboard alone: search, rows, a job, a question', async (page) => {
	await logIn(page, web.base);
	await open(page, web.base + '/jobs?queue=acts');
	await page.waitForSelector('tbody tr');
	await page.keyboard.press('/');
	assert.equal(await page.evaluate(() => document.activeElement.id), 'filter-id');
	await page.keyboard.press('Tab');
	assert.equal(await page.evaluate(() => document.activeElement.id), 'filter-queue');
	while (!(await page.evaluate(() => document.activeElement.closest('tbody tr')))) await page.keyboard.press('Tab');
	await page.keyboard.press('ArrowDown');
	await page.keyboard.press('ArrowUp');
	await page.keyboard.press('ArrowDown');
	const isSecond = () => [...document.querySelectorAll('tbody tr')].indexOf(document.activeElement) === 1;
	assert.ok(await page.evaluate(isSecond));
	const asked = page.waitForResponse(/api\/jobs/); // a refresh leaves the focus where it is
	sql("SELECT pgq_enqueue('old', '1')");
	await asked;
	assert.ok(await page.evaluate(isSecond));
	await page.keyboard.press('Enter');
	await page.waitForSelector('h1:has-text("Job ")');
	const button = page.locator('main button:text-is("Cancel")');
	await button.focus();
	await page.keyboard.press('Enter');
	await page.waitForSelector('dialog');
	assert.ok(await page.evaluate(() => document.activeElement.closest('dialog')));
	await page.keyboard.press('Escape');
	await page.waitForSelector('dialog', { state: 'detached' });
	assert.equal(await page.locator('h1 .badge:has-text("scheduled")').count(), 1);
});

await check('charts can be read with the arrow keys, and histograms as text', async (page) => {
	await logIn(page, web.base);
	await open(page, web.base + '/queues/mail');
	await page.waitForSelector('.chart .line', { state: 'attached' });
	await page.locator('.chart svg').first().focus();
	await page.keyboard.press('ArrowLeft');
	await page.waitForSelector('.chart .cursor');
	await page.waitForSelector('.histogram[aria-label*="60 %"], .histogram[aria-label*="jobs"]');
});

await check('live: a change appears without a reload', async (page) => {
	await open(page, web.base + '/queues/search_index');
	await page.waitForSelector('.badge:text-is("live")');
	sql("SELECT count(pgq_enqueue('search_index', '1')) FROM generate_series(1, 17)");
	await page.waitForSelector('dd a:text-is("17")');
});

// ---- logins and rights ----

await check('a wrong password is told, and the right one lets in', async (page) => {
	await open(page, web.base + '/login');
	for (const role of ['operator', 'nobody']) {
		await page.fill('#role', role);
		await page.fill('#password', 'wrong');
		await page.click('form button[type=submit]');
		await page.waitForSelector('.error:has-text("password")');
		assert.equal(await page.locator('.role').count(), 0);
	}
	await page.fill('#role', 'operator');
	await page.fill('#password', 'operator-pw');
	await page.click('form button[type=submit]');
	await page.waitForSelector('.role:has-text("operator")');
	await page.click('button:has-text("Log out")');
	await page.waitForSelector('#top a:has-text("Log in")');
}, { refusals: true });

await check('without a login no action can be run, and the page says why', async (page) => {
	await open(page, web.base + '/queues/mail');
	await page.waitForSelector('.badge:text-is("read-only")');
	const pause = page.locator('main button:text-is("Pause")');
	if (await pause.count()) {
		const told = page.waitForSelector('.message:has-text("Log in")');
		await pause.dispatchEvent('click');
		await told;
	}
	assert.equal(await page.locator('dialog').count(), 0);
});

await check('a role without the right sees no button, or is told', async (page) => {
	await logIn(page, web.base, 'viewer');
	await open(page, web.base + '/queues/mail');
	const pause = page.locator('main button:text-is("Pause"):not([aria-disabled])');
	if (await pause.count()) {
		await pause.click();
		await page.click('dialog button[type=submit]');
		await page.waitForSelector('dialog .error:has-text("42501")');
	}
	assert.equal(sql("SELECT paused FROM pgq_ext.queue WHERE queue = 'mail'"), 'f');
}, { refusals: true });

await check('a session that has ended is told, and the reader can go on without it', async (page) => {
	await logIn(page, web.base);
	const [cookie] = await page.context().cookies();
	await page.context().addCookies([{ ...cookie, value: '0'.repeat(64) }]);
	await page.goto(web.base + '/');
	await page.click('button:has-text("Go on without a login")');
	await page.waitForSelector('tbody tr');
	await page.waitForSelector('#top a:has-text("Log in")');
}, { refusals: true });

await check('--read-only and --hide-payload', async (page) => {
	await open(page, `${hidden.base}/jobs/${markup}`);
	await page.waitForSelector('main p:has-text("--hide-payload")');
	assert.equal(await page.locator('main pre').count(), 0);
	await open(page, hidden.base + '/queues/mail');
	await page.waitForSelector('#top .badge:text-is("read-only")');
	assert.match(page.url(), /\/pgq\/queues\/mail$/);
	await page.click('#menu a:has-text("Dead letters")');
	await page.waitForSelector('tbody tr');
	assert.match(page.url(), /\/pgq\/dead$/);
	await open(page, hidden.base + '/login');
	await page.waitForSelector('.empty:has-text("--read-only")');
});

// ---- loading ----

await check('the first view asks for each file once, and later views for none', async (page) => {
	const asked = [];
	page.on('request', (request) => asked.push(new URL(request.url()).pathname));
	await open(page, web.base + '/');
	const files = asked.filter((path) => !path.startsWith('/api/'));
	assert.deepEqual(files.filter((path, i) => files.indexOf(path) !== i), []);
	const data = asked.filter((path) => path.startsWith('/api/') && path !== '/api/live');
	assert.deepEqual([...new Set(data)].sort(), ['/api/health', '/api/history', '/api/overview', '/api/session']);
	// index.html names all modules of the first view, so that none is found only after another one has come.
	const named = await page.evaluate(() => [...document.querySelectorAll('link[rel=modulepreload]')].map(({ href }) => new URL(href).pathname));
	const first = files.slice(0, files.findIndex((path) => path.startsWith('/views/') && !named.includes(path)));
	assert.deepEqual(first.filter((path) => path.endsWith('.js') && path !== '/app.js').sort(), named.sort());
	await page.waitForFunction(() => performance.getEntriesByType('resource').some(({ name }) => name.endsWith('/views/rates.js')));
	asked.length = 0;
	await page.click('#menu a:has-text("Dead letters")');
	await page.waitForSelector('tbody tr');
	assert.deepEqual(asked.filter((path) => path.endsWith('.js')), []);
});

await checkActions(web.base);

// ---- lost connections ----

await check('a lost connection to the database is told, and the page recovers', async (page) => {
	const [database, other] = [process.env.PGDATABASE, 'template1'];
	await open(page, web.base + '/');
	await page.waitForSelector('tbody tr');
	sql(`ALTER DATABASE ${database} ALLOW_CONNECTIONS false`, other);
	try {
		sql(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '${database}' AND backend_type = 'client backend'`, other);
		await page.waitForSelector('#top .stale');
		assert.ok((await page.locator('tbody tr').count()) > 0, 'the last data stay');
		await page.goto(web.base + '/queues/mail');
		await page.waitForSelector('main .error:has-text("not currently accepting connections")');
	} finally {
		sql(`ALTER DATABASE ${database} ALLOW_CONNECTIONS true`, other);
	}
	await page.waitForSelector('h1:has-text("mail")');
	await page.waitForSelector('#top .stale', { state: 'detached' });
	assert.equal(await page.locator('main .error').count(), 0);
}, { refusals: true });

await check('a lost connection to pgq-web is told, and the page recovers', async (page) => {
	const first = await serve('--listen', '127.0.0.1:0');
	await open(page, first.base + '/');
	await page.waitForSelector('tbody tr');
	await first.end();
	await page.waitForSelector('#top .stale');
	assert.ok((await page.locator('tbody tr').count()) > 0, 'the last data stay');
	await page.click('#menu a:has-text("Rates")');
	await page.waitForSelector('main .error:has-text("cannot reach pgq-web")');
	await serve('--listen', new URL(first.base).host);
	await page.waitForSelector('main .panel td:has-text("sms_provider")');
}, { refusals: true });

await finish();
