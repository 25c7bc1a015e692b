'use strict';
// kafkajs brings gzip; its users plug in the other codecs. None of these needs a compiler.

const { CompressionCodecs, CompressionTypes } = require('kafkajs');
const SnappyCodec = require('kafkajs-snappy');
const lz4 = require('lz4-napi');
const { ZstdCodec } = require('zstd-codec');

const zstd = new Promise((resolve) => ZstdCodec.run(resolve));

// In pieces, because WebAssembly was given a small heap. As a stream, because not every producer writes into a frame
// how large its content is.
const PIECE_BYTES = 1 << 16;

function* pieces(buffer) {
  for (let position = 0; position < buffer.length; position += PIECE_BYTES) {
    yield buffer.subarray(position, position + PIECE_BYTES);
  }
}

async function stream(direction, buffer) {
  const streaming = new (await zstd).Streaming();
  const done = streaming[direction](pieces(buffer));
  if (done === null) throw new Error(`zstd: ${direction} failed`);
  return Buffer.from(done);
}

CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec;
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: ({ buffer }) => lz4.compressFrame(buffer),
  decompress: (buffer) => lz4.decompressFrame(buffer),
});
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: ({ buffer }) => stream('compressChunks', buffer),
  decompress: (buffer) => stream('decompressChunks', buffer),
});
