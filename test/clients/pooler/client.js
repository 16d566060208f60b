const { Client } = require('pg');
const readline = require('readline');

const [, , setting, word, url] = process.argv;
const query = { text: `SELECT '${word} ' || count(*) AS answer FROM pgq_claim($1, 1)`, values: ['mail'] };
if (setting === 'named') query.name = 'claim';

async function main() {
  const db = new Client(url);
  await db.connect();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const answers = new Set();
    try {
      for (let i = 0; i < 10; i++) answers.add((await db.query(query)).rows[0].answer);
      console.log([...answers].sort().join(' '));
    } catch (error) {
      console.log(`${error.code} ${error.message}`);
    }
  }
  await db.end();
}

main();
