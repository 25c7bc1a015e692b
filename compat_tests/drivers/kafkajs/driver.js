'use strict';
// kafkajs behind the drivers' contract.

const { serve } = require('./json_lines'); // first: it keeps stdout for the answers
require('./codecs');

const modules = ['producing', 'consuming', 'held', 'transactions', 'offsets', 'admin', 'members'];
serve(Object.assign({}, ...modules.map((name) => require(`./${name}`).operations)));
