// XXH64 with seed 0, of the UTF-8 bytes of a text: from key to shard, as /v1/map says.
const mask = (1n << 64n) - 1n;
const prime = [0x9E3779B185EBCA87n, 0xC2B2AE3D27D4EB4Fn, 0x165667B19E3779F9n, 0x85EBCA77C2B2AE63n, 0x27D4EB2F165667C5n];
const rotl = (x, n) => ((x << n) | (x >> (64n - n))) & mask;
const mixIn = (acc, lane) => (rotl((acc + lane * prime[1]) & mask, 31n) * prime[0]) & mask;

function xxhash64(text) {
  const b = new TextEncoder().encode(text), v = new DataView(b.buffer, b.byteOffset, b.length);
  let at = 0, h = prime[4];
  if (b.length >= 32) {
    const acc = [(prime[0] + prime[1]) & mask, prime[1], 0n, (mask + 1n - prime[0]) & mask];
    for (; at + 32 <= b.length; at += 32) {
      for (let i = 0; i < 4; i++) acc[i] = mixIn(acc[i], v.getBigUint64(at + 8 * i, true));
    }
    h = (rotl(acc[0], 1n) + rotl(acc[1], 7n) + rotl(acc[2], 12n) + rotl(acc[3], 18n)) & mask;
    for (const a of acc) h = ((h ^ mixIn(0n, a)) * prime[0] + prime[3]) & mask;
  }
  h = (h + BigInt(b.length)) & mask;
  for (; at + 8 <= b.length; at += 8) h = (rotl(h ^ mixIn(0n, v.getBigUint64(at, true)), 27n) * prime[0] + prime[3]) & mask;
  if (at + 4 <= b.length) {
    h = (rotl(h ^ ((BigInt(v.getUint32(at, true)) * prime[0]) & mask), 23n) * prime[1] + prime[2]) & mask;
    at += 4;
  }
  for (; at < b.length; at++) h = (rotl(h ^ ((BigInt(b[at]) * prime[4]) & mask), 11n) * prime[0]) & mask;
  h = ((h ^ (h >> 33n)) * prime[1]) & mask;
  h = ((h ^ (h >> 29n)) * prime[2]) & mask;
  return h ^ (h >> 32n);
}

const shardOf = (key, shards) => Number(xxhash64(key) % BigInt(shards));
