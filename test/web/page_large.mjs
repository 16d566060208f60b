// 10,000 queues and 1,000,000 jobs in one of them. It takes minutes: LONG_SCENARIOS=1.
import assert from 'node:assert/strict';
import { serve, sql, check, logIn, open, finish } from './browser.mjs';

// One transaction with all queues would take much longer.
for (let first = 1; first <= 10000; first += 100)
	sql(`SELECT count(pgq_create_queue('many_' || lpad(i::text, 5, '0'))) FROM generate_series(${first}, ${first + 99}) i`);
sql("SELECT pgq_create_queue('million')");
for (let part = 0; part < 20; part++)
	sql(`SELECT count(pgq_enqueue('million', jsonb_build_object('n', i), priority => i % 3, unique_key => CASE WHEN i = 990001 THEN 'needle' END))
		FROM generate_series(${part * 50000 + 1}, ${part * 50000 + 50000}) i`);
sql('ANALYZE pgq_ext.job');
const web = await serve('--listen', '127.0.0.1:0');

await check('10,000 queues: the overview shows some, finds all, and sorts all', async (page) => {
	await open(page, web.base + '/');
	await page.waitForSelector('p:has-text("These are 200 queues of 10,0")');
	await page.fill('input[data-search]', 'many_09999');
	await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 1);
	await page.fill('input[data-search]', '');
	await page.waitForSelector('p:has-text("These are 200 queues")');
	await page.click('th button:has-text("Ready")');
	await page.waitForSelector('tbody tr:first-child:has-text("million"):has-text("1,000,000")');
	await page.click('tbody tr:first-child a');
	await page.waitForSelector('h1:has-text("million")');
	await page.waitForSelector('dd a:text-is("1,000,000")');
});

await check('1,000,000 jobs: pages of the list, and searches in parts', async (page) => {
	await logIn(page, web.base);
	await open(page, web.base + '/jobs?queue=million');
	await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 100);
	await page.click('button:has-text("Read more jobs")');
	await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 200);
	const id = sql("SELECT job_id FROM pgq_ext.job WHERE unique_key = 'needle'");
	await page.fill('#filter-key', 'needle');
	await page.press('#filter-key', 'Enter');
	await page.waitForSelector(`tbody a:text-is("${id}")`);
	await open(page, web.base + '/jobs?queue=million&payload={"n":-1}');
	await page.waitForSelector('p:has-text("10,000 jobs of the queue were searched")');
	await page.click('button:has-text("Search on")');
	await page.waitForSelector('p:has-text("20,000 jobs of the queue were searched")');
	assert.equal(await page.locator('tbody tr').count(), 0);
	await open(page, `${web.base}/jobs/${id}`);
	await page.waitForSelector('pre:has-text("990001")');
});

await check('10,000 queues: nothing fails while the page stays open', async (page) => {
	await open(page, web.base + '/');
	for (let i = 0; i < 3; i++) {
		const asked = page.waitForResponse(/api\/overview/);
		sql("SELECT pgq_enqueue('many_00001', '1')");
		assert.equal((await asked).status(), 200);
	}
	assert.equal(await page.locator('main .error').count(), 0);
});

await finish();
