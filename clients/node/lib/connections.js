'use strict';
const { Client } = require('pg');
const { isOfServer } = require('./errors');

/** The addresses that a configuration names: hosts and ports are lists with commas, as in libpq. */
function addresses(config) {
  if (config.connectionString && !config.host) return [{}];
  const hosts = String(config.host ?? process.env.PGHOST ?? 'localhost').split(',');
  const ports = String(config.port ?? process.env.PGPORT ?? 5432).split(',');
  return hosts.map((host, i) => ({ host: host.trim(), port: Number(ports[ports.length === 1 ? 0 : i]) }));
}

/** Waits for an answer. After that many seconds it ends the connection: TCP alone notices a server that hangs, or has gone, too late. */
async function inTime(client, seconds, answer) {
  const { stream } = client.connection;
  const timer = setTimeout(() => stream.destroy(), seconds * 1000).unref();
  try {
    return await answer;
  } finally {
    clearTimeout(timer);
  }
}

const close = (client) => inTime(client, 5, client.end()).catch(() => {});

/** Connects to the first of the addresses at which there is a primary. Raises the last error if there is none. */
async function connectToPrimary(config = {}) {
  let problem;
  for (const address of addresses(config)) {
    const client = new Client({ keepAlive: true, keepAliveInitialDelayMillis: 5000, connectionTimeoutMillis: 5000, ...config, ...address });
    client.on('error', () => { client.broken = true; }); // the next query raises the error
    try {
      await client.connect();
      const { rows } = await inTime(client, 5, client.query('SELECT pg_is_in_recovery() AS standby'));
      if (!rows[0].standby) return client;
      problem = new Error(`${address.host ?? 'the server'} is a standby`);
    } catch (error) {
      problem = error;
    }
    close(client);
  }
  throw problem;
}

/**
 * A pool of connections to the primary. A connection that was lost is replaced when it is needed, by one to the server
 * that is the primary then.
 */
class Connections {
  #config; #limit; #open = 0; #idle = []; #waiting = [];

  constructor(config, limit) {
    this.#config = config;
    this.#limit = limit;
  }

  async #take() {
    while (this.#idle.length === 0 && this.#open >= this.#limit) {
      await new Promise((resolve) => { this.#waiting.push(resolve); });
    }
    const idle = this.#idle.pop();
    if (idle && !idle.broken) return idle;
    if (!idle) this.#open++;
    try {
      return await connectToPrimary(this.#config);
    } catch (error) {
      this.#open--;
      this.#waiting.shift()?.();
      throw error;
    }
  }

  /** Calls body(client). If that raises, the connection is closed unless `keeps(error)`. */
  async use(body, keeps = isOfServer) {
    const client = await this.#take();
    try {
      return await body(client);
    } catch (error) {
      if (!keeps(error)) client.broken = true;
      throw error;
    } finally {
      if (client.broken) { this.#open--; close(client); } else this.#idle.push(client);
      this.#waiting.shift()?.();
    }
  }

  async close() { await Promise.all(this.#idle.splice(0).map(close)); }
}

module.exports = { connectToPrimary, inTime, close, Connections };
