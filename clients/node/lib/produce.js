'use strict';
const { typed } = require('./errors');

/** A number means seconds; a string is an interval of PostgreSQL. */
const interval = (value) => (typeof value === 'number' ? `${value} s` : value);
const json = (value) => JSON.stringify(value === undefined ? null : value);
const time = (value) => (value instanceof Date ? value.toISOString() : value);
const same = (value) => value;

/** The options of a job: the name of the parameter in SQL, and how a value is passed. */
const OPTIONS = {
  priority: ['priority', same],
  delay: ['delay', interval],
  runAt: ['run_at', time],
  groupKey: ['group_key', same],
  uniqueKey: ['unique_key', same],
  uniqueUntil: ['unique_until', same],
  uniqueFor: ['unique_for', interval],
  onConflict: ['on_conflict', same],
  headers: ['headers', json],
  maxAttempts: ['max_attempts', same],
  expiresIn: ['expires_in', interval],
  batch: ['batch', same],
  after: ['after', same],
  onParentFailure: ['on_parent_failure', same],
};

function option(name) {
  if (!Object.hasOwn(OPTIONS, name)) throw new TypeError(`unknown option of a job: ${name}`);
  return OPTIONS[name];
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
  const named = [];
  const all = [...values];
  const pass = (parameter, value) => {
    all.push(value);
    named.push(`, ${parameter} => $${all.length}`);
  };
  for (const [key, value] of Object.entries(options)) {
    if (value !== undefined && value !== null) pass(option(key)[0], option(key)[1](value));
  }
  for (const [parameter, value] of Object.entries(more)) pass(parameter, value);
  const places = values.map((_, i) => `$${i + 1}`).join(', ');
  return query(db, `SELECT ${columns} FROM ${name}(${places}${named.join('')}) AS r`, all);
}

/** In JSON an id is a number; ids of this package are texts of digits, and other texts are refs. */
const id = (value) => (/^\d+$/.test(value) ? Number(value) : value);
const IN_JSON = { headers: same, batch: id, after: (values) => values.map(id) };

/** An element of the array of pgq_enqueue_many. */
function element({ payload = null, ref, topic, ...options }) {
  const result = { payload, ref, topic };
  for (const [key, value] of Object.entries(options)) {
    const [parameter, pass] = option(key);
    if (value !== undefined && value !== null) result[parameter] = (IN_JSON[key] ?? pass)(value);
  }
  return result;
}

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
  const callback = (spec) => {
    if (!spec) return null;
    const { queue, ...job } = spec;
    return json({ queue, ...element(job) });
  };
  const [row] = await query(
    db,
    'SELECT pgq_create_batch(on_success => $1, on_failure => $2, on_finish => $3, metadata => $4) AS id',
    [callback(onSuccess), callback(onFailure), callback(onFinish), metadata === undefined ? null : json(metadata)],
  );
  return row.id;
}

/** Closes the batch: its callbacks can follow as soon as its members have ended. */
async function closeBatch(db, batch) {
  await query(db, 'SELECT pgq_close_batch($1)', [batch]);
}

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
