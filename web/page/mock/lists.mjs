// Canned answers that are plain lists: schedules, handlers, batches, locks and rates.
import { iso } from './rows.mjs';

export function makeLists({ names, errors, isEmpty, handlers }) {
	return {
		schedules: () =>
			list([
				{
					schedule: names[0],
					cron: '0 3 * * *',
					timezone: 'Europe/Berlin',
					queue: names[1],
					paused: false,
					next_run_at: iso(-9000),
					last_run_at: iso(77000),
					last_job_id: '771',
					last_error: null,
				},
				{
					schedule: 'hourly report',
					cron: '0 * * * *',
					timezone: 'UTC',
					queue: names[0],
					paused: true,
					next_run_at: null,
					last_run_at: iso(7000),
					last_job_id: '772',
					last_error: errors[0],
				},
			]),
		handlers: () => list(handlers()),
		batches: () =>
			list([
				{
					batch: '17',
					total: '200',
					waiting: '90',
					leased: '10',
					acked: '97',
					dead: '3',
					cancelled: '0',
					expired: '0',
					deleted: '0',
					state: 'open',
					created_at: iso(500),
					closed_at: null,
					finished_at: null,
					maker: 'app',
					last_error: null,
				},
				{
					batch: '16',
					total: '9007199254740993',
					acked: '9007199254740993',
					dead: '0',
					cancelled: '0',
					expired: '0',
					deleted: '0',
					state: 'finished',
					created_at: iso(5000),
					closed_at: iso(4900),
					finished_at: iso(100),
					maker: 'app',
					last_error: errors[0],
				},
			]),
		locks: () =>
			list([
				{
					name: names[0],
					slot: 1,
					slots: 1,
					owner: 'deploy@host1',
					pid: 4711,
					acquired_at: iso(12),
					expires_at: iso(-18),
					session_bound: true,
					waiting: 3,
					in_transaction: false,
				},
			]),
		rates: () =>
			list([
				{
					name: names[0],
					permits: 100,
					period: 60,
					burst: 100,
					available: 37,
					next_at: iso(-1),
				},
				{ name: 'sms', permits: 5, period: 1, burst: 5, available: null, next_at: null },
			]),
	};

	function list(rows) {
		return { rows: isEmpty ? [] : rows, more: false, notes: [] };
	}
}
