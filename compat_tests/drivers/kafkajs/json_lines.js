'use strict';
// A request per line in, an answer per line out (the contract is in harness/driver.py).

const { createInterface } = require('node:readline');

// Whatever a library prints must not get between the answers.
globalThis.console = new console.Console(process.stderr, process.stderr);

/** What this client cannot do; the message says why. */
class Unsupported extends Error {
  name = 'unsupported';
}

/** Answers until stdin ends; an error is an answer too. */
async function serve(operations) {
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    process.stdout.write(`${JSON.stringify(await answer(operations, request))}\n`);
  }
  process.exit();
}

async function answer(operations, request) {
  try {
    if (!(request.op in operations)) throw new Unsupported(`kafkajs has no ${request.op}`);
    return await operations[request.op](request);
  } catch (error) {
    return { error: error.name, message: told(error) };
  }
}

/** kafkajs wraps what the broker said, or keeps it in a list by topic, group or partition, beside its own message. */
function told(error) {
  return [...new Set(messages(error))].join(': ');
}

function messages(error) {
  const parts = [...(error.groups ?? []), ...(error.partitions ?? [])].map((part) => part.error);
  const inner = [error.cause, ...(error.errors ?? []), ...parts].filter(Boolean);
  return [error.type, error.message, ...inner.flatMap(messages)].filter(Boolean);
}

/** Kafka's name of the error, which may be wrapped. */
function typeOf(error) {
  return error.type ?? (error.cause && typeOf(error.cause));
}

module.exports = { Unsupported, serve, told, typeOf };
