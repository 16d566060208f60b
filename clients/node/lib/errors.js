'use strict';

/** An error of pgq_ext, or of a function that it calls. `code` is the SQLSTATE, `cause` the error of the driver. */
class PgqError extends Error {
  constructor(cause) {
    super(cause.message, { cause });
    Object.assign(this, { name: this.constructor.name, code: cause.code, detail: cause.detail, hint: cause.hint });
  }
}

class StaleLeaseError extends PgqError {} // PQ001: the lease has ended; another worker may have the job
class QueueFullError extends PgqError {} // PQ002: the queue has as many jobs as its option max_depth allows
class UnroutableError extends PgqError {} // PQ003: no queue is bound to the topic, and `mustRoute` was set
class NotFoundError extends PgqError {} // 42704: there is no such queue, job or batch
class DuplicateError extends PgqError {} // 23505: a job has the unique key, and `onConflict` is 'error'

const CLASSES = { PQ001: StaleLeaseError, PQ002: QueueFullError, PQ003: UnroutableError, 42704: NotFoundError, 23505: DuplicateError };

/** Returns the error as an instance of one of these classes, or as it is if its SQLSTATE has no class. */
function typed(error) {
  const Class = CLASSES[error?.code];
  return Class && !(error instanceof PgqError) ? new Class(error) : error;
}

/** For handlers: the job becomes a dead letter at once. */
class DiscardError extends Error {}

/** For handlers: the attempt fails, and the next one begins after that many seconds. */
class RetryError extends Error {
  constructor(message, seconds) { super(message); this.seconds = seconds; }
}

/** For handlers: the job is given back, to be handed out after that many seconds. No attempt is counted. */
class ReleaseError extends Error {
  constructor(seconds = 0) { super(`released for ${seconds} s`); this.seconds = seconds; }
}

const isState = (code) => /^[0-9A-Z]{5}$/.test(code ?? '') && !/^E[A-Z]{4}$/.test(code); // not EPIPE

/**
 * Returns whether the server has raised the error, so that the connection can be used again. After 25006 it is one to a
 * standby, and 25P03 and 25P04 end the session.
 */
const isOfServer = (error) => isState(error?.code) && !/^(57P0|08|25006|25P03|25P04)/.test(error.code);

/** Returns whether the same call may succeed later: there was no connection, a conflict, a timeout, or a shortage. */
const isTransient = (error) => !isOfServer(error) || /^(40|53|55P03|57|58)/.test(error.code);

/** Returns whether each further claim would fail, too: no right, no queue, or no extension. */
const isFinal = (error) => isState(error?.code) && /^(42|3F)/.test(error.code);

/** The text of an error as PostgreSQL can store it: without NUL, and without halves of surrogate pairs. */
function textOf(error, name = 'stack') {
  let text;
  try {
    // An error of several addresses has no message of its own.
    text = error instanceof Error ? String(error[name] || error.message || error.errors?.[0]?.message || error.name) : String(error);
  } catch {
    text = 'an error without a text'; // an object without a prototype, for example
  }
  return Buffer.from(text, 'utf8').toString('utf8').replaceAll('\0', '?');
}

module.exports = {
  PgqError, StaleLeaseError, QueueFullError, UnroutableError, NotFoundError, DuplicateError,
  DiscardError, RetryError, ReleaseError, typed, isOfServer, isTransient, isFinal, textOf,
};
