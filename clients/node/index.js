'use strict';
const { interval, json, query, ...producer } = require('./lib/produce');
const { typed, isOfServer, isTransient, isFinal, textOf, ...errors } = require('./lib/errors');
const { connectToPrimary: connect } = require('./lib/connections');
const { Worker, work, drain } = require('./lib/worker');

module.exports = { ...producer, ...errors, connect, Worker, work, drain };
