// A worker with clients/node.  node library.js noop|update CONCURRENCY [AHEAD]
'use strict';
const { work } = require('../../clients/node');
const [kind, concurrency, ahead] = process.argv.slice(2);

const handlers = {
  noop: () => {},
  update: async (job, tx) => { await tx.query('UPDATE account SET n = n + 1 WHERE id = $1', [job.payload.template]); },
};
work('mail', handlers[kind], { tx: kind === 'update', concurrency: Number(concurrency), wait: 1, ahead: Number(ahead ?? 0) });
