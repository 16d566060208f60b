'use strict';
const { typed } = require('./errors');

/** A number means seconds; a string is an interval of PostgreSQL, which has no exponent (5e-7). */
const interval = (value) => (typeof value === 'number' ? `${value.toFixed(6)} s` : value);
const json = (value) => JSON.stringify(value === undefined ? null : value);
const time = (value) => (value instanceof Date ? value.toISOString() : value);
const same = (value) => value;

/** The options of a job, and how a value is passed. The parameters in SQL have the same names, with underscores. */
const OPTIONS = {
  priority: same, delay: interval, runAt: time, groupKey: same, uniqueKey: same, uniqueUntil: same, uniqueFor: interval,
  onConflict: same, headers: json, maxAttempts: same, expiresIn: interval, batch: same, after: same, onParentFailure: same,
};

/** The options that are given, as [parameter, value]. own: how options are passed in another way than in OPTIONS. */
function given(options, own = {}) {
  return Object.entries(options).filter(([, value]) => value !== undefined && value !== null).map(([name, value]) => {
    if (!Object.hasOwn(OPTIONS, name)) throw new TypeError(`unknown option of a job: ${name}`);
    return [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), (own[name] ?? OPTIONS[name])(value)];
  });
}

async function query(db, text, values) {
  try {
    return (await db.query(text, values)).rows;
  } catch (error) {
    throw typed(error);
  }
}

/** Calls the function with these arguments, and with the options as named arguments. */
function callWith(db, columns, name, values, options, more = {}) {
  const named = [...given(options), ...Object.entries(more)];
  const places = [...values.map((_, i) => `$${i + 1}`), ...named.map(([parameter], i) => `${parameter} => $${values.length + i + 1}`)];
  return query(db, `SELECT ${columns} FROM ${name}(${places.join(', ')}) AS r`, [...values, ...named.map(([, value]) => value)]);
}

/** In JSON an id is a number; ids of this package are texts of digits, and other texts are refs. */
const id = (value) => (/^\d+$/.test(value) ? Number(value) : value);
const IN_JSON = { headers: same, batch: id, after: (values) => values.map(id) };

/** An element of the array of pgq_enqueue_many. */
const element = ({ payload = null, ref, topic, ...options }) => ({ payload, ref, topic, ...Object.fromEntries(given(options, IN_JSON)) });

/** Enqueues a job, and returns its id. db: a client or pool of pg, or a client in a transaction. */
async function enqueue(db, queue, payload, options = {}) {
  const [row] = await callWith(db, 'r AS id', 'pgq_enqueue', [queue, json(payload)], options);
  return row.id;
}

/** Enqueues jobs, all or none, and returns their ids. Each job: { payload, ref?, ...options }. */
async function enqueueMany(db, queue, jobs) {
  const rows = await callWith(db, 'r AS id', 'pgq_enqueue_many', [queue, json(jobs.map(element))], {});
  return rows.map((row) => row.id);
}

const published = (rows) => rows.map(({ queue, job_id: id }) => ({ queue, id }));

/** Publishes a job to a topic, and returns [{ queue, id }], one for each queue that has got a job. */
async function publish(db, topic, payload, { mustRoute = false, ...options } = {}) {
  const more = mustRoute ? { must_route: true } : {};
  return published(await callWith(db, '*', 'pgq_publish', [topic, json(payload)], options, more));
}

/** Publishes jobs, all or none. Each job: { topic, payload, ...options }. */
async function publishMany(db, jobs) {
  return published(await callWith(db, '*', 'pgq_publish_many', [json(jobs.map(element))], {}));
}

/** Opens a batch, and returns its id. Callbacks: { onSuccess: { queue, payload, ... }, onFailure, onFinish, metadata }. */
async function createBatch(db, { onSuccess, onFailure, onFinish, metadata } = {}) {
  const callback = ({ queue, ...job }) => json({ queue, ...element(job) });
  const callbacks = [onSuccess, onFailure, onFinish].map((spec) => (spec ? callback(spec) : null));
  const sql = 'SELECT pgq_create_batch(on_success => $1, on_failure => $2, on_finish => $3, metadata => $4) AS id';
  const [row] = await query(db, sql, [...callbacks, metadata === undefined ? null : json(metadata)]);
  return row.id;
}

/** Closes the batch: its callbacks can follow as soon as its members have ended. */
async function closeBatch(db, batch) { await query(db, 'SELECT pgq_close_batch($1)', [batch]); }

/** Cancels a job; see pgq_cancel. */
async function cancel(db, id) {
  const [row] = await query(db, 'SELECT pgq_cancel($1) AS answer', [id]);
  return row.answer;
}

/** Waits up to that many seconds for the end of the job; see pgq_result. Returns { state, result, ... }, or null. */
async function result(db, id, seconds = 0) {
  const [row] = await query(db, 'SELECT * FROM pgq_result($1, wait => $2)', [id, interval(seconds)]);
  return row ?? null;
}

module.exports = { enqueue, enqueueMany, publish, publishMany, createBatch, closeBatch, cancel, result, interval, json, query };
