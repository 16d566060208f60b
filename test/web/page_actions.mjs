// Each action of the page, and what it has done in the database.
import assert from 'node:assert/strict';
import { sql, until, check, logIn, open, act } from './browser.mjs';

const idOf = (key) => sql(`SELECT job_id FROM pgq_ext.job WHERE unique_key = '${key}'`);
const inQueue = (table, queue) => `SELECT count(*) FROM pgq_ext.${table} WHERE queue = '${queue}'`;
const oneDead = () => sql(`SELECT min(job_id) FROM pgq_ext.dead_letter WHERE queue = 'mail' AND last_error LIKE 'no such%'`);

async function ofQueue(base) {
	await check('actions of a queue: pause, resume, enqueue, purge', async (page) => {
		await logIn(page, base);
		await open(page, base + '/queues/old');
		await act(page, 'Pause', 'The queue old is paused');
		await page.waitForSelector('h1 .badge:text-is("paused")');
		assert.equal(sql("SELECT paused FROM pgq_ext.queue WHERE queue = 'old'"), 't');
		await act(page, 'Resume', 'The queue old goes on');
		await page.waitForSelector('h1 .badge', { state: 'detached' });
		assert.equal(sql("SELECT paused FROM pgq_ext.queue WHERE queue = 'old'"), 'f');
		await act(page, 'Enqueue', 'The job has the id', {
			payload: '{"n": 12345678901234567890}', priority: '-3', delay: '3600', group_key: "'; DROP TABLE x --", unique_key: 'made',
		});
		assert.equal(sql(`SELECT payload->>'n', priority, group_key, run_at > now() + interval '30 min' FROM pgq_ext.job WHERE job_id = ${idOf('made')}`),
			"12345678901234567890|-3|'; DROP TABLE x --|t");
		await page.click('main button:text-is("Purge")');
		for (const typed of ['', 'Old', 'old ']) {
			await page.fill('dialog input', typed);
			assert.ok(await page.isDisabled('dialog button[type=submit]'), `"${typed}" is not the name`);
		}
		await page.fill('dialog input', 'old');
		const told = page.waitForSelector('.message:has-text("of old were deleted")');
		await page.click('dialog button[type=submit]');
		await told;
		assert.equal(sql(inQueue('job_status', 'old')), '0');
	});
	await check('an action that fails shows the error in its question', async (page) => {
		await logIn(page, base);
		await open(page, base + '/queues/mail');
		await page.click('main button:text-is("Enqueue")');
		await page.fill('dialog textarea', '{"n": ');
		await page.click('dialog button[type=submit]');
		await page.waitForSelector('dialog .error:has-text("json")');
		await page.keyboard.press('Escape');
		await page.waitForSelector('dialog', { state: 'detached' });
	}, { refusals: true });
}

async function ofJobs(base) {
	await check('actions of a job: time, priority, run now, cancel', async (page) => {
		await logIn(page, base);
		const [later, first, now, none] = ['run_at', 'priority', 'retry', 'cancel'].map(idOf);
		await open(page, `${base}/jobs/${later}`);
		await act(page, 'Change time', `The time of the job ${later} was changed`, { run_at: '2100-01-02T03:04:05' });
		assert.equal(sql(`SELECT run_at AT TIME ZONE 'UTC' FROM pgq_ext.job WHERE job_id = ${later}`), '2100-01-02 03:04:05');
		await open(page, `${base}/jobs/${first}`);
		await act(page, 'Change priority', `The priority of the job ${first} was changed`, { priority: '7' });
		assert.equal(sql(`SELECT priority FROM pgq_ext.job WHERE job_id = ${first}`), '7');
		await open(page, `${base}/jobs/${now}`);
		await act(page, 'Run now', `The job ${now} is due`);
		await page.waitForSelector('h1 .badge:text-is("ready")');
		await open(page, `${base}/jobs/${none}`);
		await act(page, 'Cancel', `The job ${none} has ended`);
		await until(`SELECT count(*) FROM pgq_ext.job WHERE job_id = ${none}`, '0');
	});
	await check('actions of a job in work: release', async (page) => {
		await logIn(page, base);
		const held = sql("SELECT min(job_id) FROM pgq_ext.lease WHERE queue = 'orders'");
		await open(page, `${base}/jobs/${held}`);
		await act(page, 'Release', `The job ${held} waits again`);
		await until(`SELECT count(*) FROM pgq_ext.lease WHERE job_id = ${held}`, '0');
		await page.waitForSelector('h1 .badge:text-is("ready")');
	});
	await check('actions of a job that has ended: run again', async (page) => {
		await logIn(page, base);
		const finished = sql('SELECT min(job_id) FROM pgq_ext.finished_job WHERE result IS NOT NULL');
		const before = Number(sql(inQueue('job_status', 'mail')));
		await open(page, `${base}/jobs/${finished}`);
		await act(page, 'Run again', 'The new job has the id');
		assert.equal(sql(inQueue('job_status', 'mail')), String(before + 1));
	});
}

async function ofDeadLetters(base) {
	await check('dead letters: redrive those with one error', async (page) => {
		await logIn(page, base);
		await open(page, base + '/dead?queue=mail');
		await page.locator('tr', { hasText: 'SMTP server' }).getByText('Redrive').click();
		await page.waitForSelector('dialog strong:has-text("SMTP server")');
		const told = page.waitForSelector('.message:has-text("5 dead letters of mail became jobs")');
		await page.click('dialog button[type=submit]');
		await told;
		await page.waitForSelector('tr:has-text("SMTP server")', { state: 'detached' });
		assert.equal(sql(inQueue('dead_letter', 'mail')), '5');
	});
	await check('dead letters: an error with %, _ and \\ means only itself', async (page) => {
		sql("SELECT pgq_enqueue('attacks', '{}')");
		sql("SELECT pgq_fail(job_id, lease, '<script>alert(3)</script> 100 times of axb\\c') FROM pgq_claim('attacks')");
		await logIn(page, base);
		await open(page, base + '/dead?queue=attacks');
		await act(page, page.locator('tr', { hasText: '100% of a_b\\c' }).getByText('Redrive'), '1 dead letter of attacks');
		assert.equal(sql(inQueue('dead_letter', 'attacks')), '1');
		await act(page, 'Redrive all of the queue', '1 dead letter of attacks');
		assert.equal(sql(inQueue('dead_letter', 'attacks')), '0');
	});
	await check('dead letters: one by one, redrive and delete', async (page) => {
		await logIn(page, base);
		await open(page, base + '/dead?by=job&queue=mail');
		const [first, total] = [oneDead(), Number(sql(inQueue('dead_letter', 'mail')))];
		await act(page, page.locator('tr', { hasText: first }).getByText('Redrive'), `The job ${first} is due`);
		const second = oneDead();
		await act(page, page.locator('tr', { hasText: second }).getByText('Delete'), `The job ${second} has ended`);
		assert.equal(sql(inQueue('dead_letter', 'mail')), String(total - 2));
		await open(page, base + '/queues/mail');
		await act(page, 'Redrive all', `${total - 2} dead letters of mail`);
		assert.equal(sql(inQueue('dead_letter', 'mail')), '0');
	});
}

async function ofOthers(base) {
	await check('schedules: run now, pause, resume', async (page) => {
		await logIn(page, base);
		await open(page, base + '/schedules');
		const row = page.locator('tr', { hasText: 'nightly_report' });
		const before = Number(sql(inQueue('job_status', 'reports')));
		await act(page, row.getByText('Run now'), 'The job has the id');
		assert.equal(sql(inQueue('job_status', 'reports')), String(before + 1));
		await act(page, row.getByText('Pause'), 'The schedule nightly_report is paused');
		await act(page, row.getByText('Resume'), 'The schedule nightly_report goes on');
		await act(page, page.locator('tr', { hasText: '<i>cleanup</i>' }).getByText('Resume'), 'The schedule <i>cleanup</i> goes on');
		assert.equal(sql('SELECT count(*) FROM pgq_ext.schedule WHERE paused'), '0');
	});
	await check('handlers: pause and resume', async (page) => {
		await logIn(page, base);
		await open(page, base + '/handlers');
		await act(page, 'Pause', 'The handler of thumbnails is paused');
		await page.waitForSelector('tbody .badge:text-is("paused")');
		await act(page, 'Resume', 'The handler of thumbnails goes on');
		await page.waitForSelector('tbody .badge:text-is("paused")', { state: 'detached' });
	});
	await check('batches: close and cancel', async (page) => {
		await logIn(page, base);
		await open(page, base + '/batches');
		const [first, second] = sql('SELECT batch_id FROM pgq_ext.job_batch ORDER BY created_at').split('\n');
		await act(page, page.locator('tr', { hasText: second }).getByText('Close'), `The batch ${second} is closed`);
		await act(page, page.locator('tr', { hasText: first }).getByText('Cancel'), `of the batch ${first} were cancelled`);
		await until("SELECT count(*) FROM pgq_ext.job WHERE payload ? 'import'", '0');
	});
}

export async function checkActions(base) {
	await ofQueue(base);
	await ofJobs(base);
	await ofDeadLetters(base);
	await ofOthers(base);
}
