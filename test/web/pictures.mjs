// The pictures of docs/web.md: PICTURES=docs/pictures in the environment names the folder for them.
import { check, logIn, open, sql } from './browser.mjs';

// Some minutes of work, so that the charts show lines.
async function work() {
	for (let i = 0; i < 24; i++) {
		const jobs = 20 + Math.round(15 * Math.sin(i / 3)) + (i % 5) * 4;
		sql(`SELECT count(pgq_enqueue('mail', jsonb_build_object('to', 'user' || i || '@example.org'))) FROM generate_series(1, ${jobs}) i`);
		sql(`SELECT count(pgq_ack(job_id, lease, '{"accepted": true}')) FROM pgq_claim('mail', ${jobs - (i % 3)})`);
		await new Promise((resolve) => setTimeout(resolve, 5000));
	}
}

export async function takePictures(base, folder) {
	const letter = sql("SELECT min(job_id) FROM pgq_ext.dead_letter WHERE queue = 'mail'");
	const pictures = [
		['web-overview', '/', 'light', 1100, 700],
		['web-queue', '/queues/mail', 'dark', 1100, 820],
		['web-job', `/jobs/${letter}`, 'light', 1100, 740],
		['web-dead', '/dead?queue=mail', 'light', 1100, 480],
		['web-phone', '/queues/mail', 'dark', 390, 720],
	];
	// Names for the tests of markup do not belong into pictures.
	sql("SELECT pgq_drop_queue(queue, force => true) FROM pgq_ext.queue WHERE queue ~ '^<|[?]|attacks|acts' OR queue !~ '^[a-z<]'");
	await work();
	for (const [name, path, colorScheme, width, height] of pictures)
		await check(`picture ${name}`, async (page) => {
			await logIn(page, base);
			await open(page, base + path);
			await page.waitForFunction(() => [...document.querySelectorAll('.chart')].every((chart) => chart.querySelector('.line')));
			await page.screenshot({ path: `${folder}/${name}.png` });
		}, { colorScheme, viewport: { width, height } });
}
