// Tries numbers: SHA-256 of "challenge:number" must begin with so many zero bits. Posts the first number that fits.

const AT_ONCE = 256; // many digests under way at a time: each alone costs mostly its way there and back

function zeroBits(hash) {
  let bits = 0;
  for (const byte of new Uint8Array(hash)) {
    if (byte) return bits + Math.clz32(byte) - 24;
    bits += 8;
  }
  return bits;
}

self.onmessage = async ({ data: { challenge, difficulty } }) => {
  const encoder = new TextEncoder();
  for (let from = 0; ; from += AT_ONCE) {
    const numbers = Array.from({ length: AT_ONCE }, (_, i) => from + i);
    const hashes = await Promise.all(numbers.map((n) => crypto.subtle.digest("SHA-256", encoder.encode(`${challenge}:${n}`))));
    const found = hashes.findIndex((hash) => zeroBits(hash) >= difficulty);
    if (found >= 0) return self.postMessage(String(from + found));
  }
};
