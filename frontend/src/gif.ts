// A GIF of few colours: a fixed palette, and the compression that the format prescribes (LZW).

const CUBE = 6;

/** 216 colours of a cube, then greys; the transparent rest is black. */
export function palette(): Uint8Array {
  const found = new Uint8Array(256 * 3);
  for (let k = 0; k < 216; k++)
    found.set([Math.floor(k / 36), Math.floor(k / 6) % 6, k % 6].map((v) => (v * 255) / (CUBE - 1)), k * 3);
  for (let k = 0; k < 40; k++) found.fill(Math.round(((k + 0.5) * 255) / 40), (216 + k) * 3, (217 + k) * 3);
  return found;
}

/** Nearest colours of the palette for RGBA pixels. */
export function quantize(pixels: Uint8ClampedArray): Uint8Array {
  const found = new Uint8Array(pixels.length / 4);
  for (let k = 0; k < found.length; k++) {
    const [r, g, b] = [pixels[4 * k], pixels[4 * k + 1], pixels[4 * k + 2]];
    const grey = Math.max(r, g, b) - Math.min(r, g, b) < 14;
    const side = (v: number) => Math.round((v * (CUBE - 1)) / 255);
    if (grey && (r + g + b) / 3 < 250) found[k] = 216 + Math.min(39, Math.floor((((r + g + b) / 3) * 40) / 256));
    else found[k] = 36 * side(r) + 6 * side(g) + side(b);
  }
  return found;
}

/** LZW with codes of growing size, as GIF has them. */
export function compress(indices: Uint8Array, bits = 8): Uint8Array {
  const out: number[] = [];
  const clear = 1 << bits;
  let size = bits + 1;
  let next = clear + 2;
  let table = new Map<number, number>();
  let buffer = 0;
  let filled = 0;
  const emit = (code: number) => {
    buffer |= code << filled;
    filled += size;
    while (filled >= 8) {
      out.push(buffer & 255);
      buffer >>>= 8;
      filled -= 8;
    }
  };
  emit(clear);
  let prefix = indices[0];
  for (let k = 1; k < indices.length; k++) {
    const key = (prefix << 8) | indices[k];
    const known = table.get(key);
    if (known !== undefined) {
      prefix = known;
      continue;
    }
    emit(prefix);
    if (next === 4096) {
      emit(clear);
      table = new Map();
      next = clear + 2;
      size = bits + 1;
    } else {
      if (next === 1 << size) size++;
      table.set(key, next++);
    }
    prefix = indices[k];
  }
  emit(prefix);
  emit(clear + 1);
  if (filled) out.push(buffer & 255);
  return Uint8Array.from(out);
}

/** Puts frames together; `delay` in hundredths of a second. */
export class Gif {
  private parts: Uint8Array[] = [];

  private width: number;
  private height: number;
  private delay: number;

  constructor(width: number, height: number, delay: number) {
    this.width = width;
    this.height = height;
    this.delay = delay;
    const u16 = (v: number) => [v & 255, v >> 8];
    this.add([...text("GIF89a"), ...u16(width), ...u16(height), 0xf7, 0, 0]);
    this.parts.push(palette());
    this.add([0x21, 0xff, 11, ...text("NETSCAPE2.0"), 3, 1, 0, 0, 0]);
  }

  private add(bytes: number[]): void {
    this.parts.push(Uint8Array.from(bytes));
  }

  frame(pixels: Uint8ClampedArray): void {
    const u16 = (v: number) => [v & 255, v >> 8];
    this.add([0x21, 0xf9, 4, 4, ...u16(this.delay), 0, 0, 0x2c, 0, 0, 0, 0, ...u16(this.width), ...u16(this.height), 0, 8]);
    const data = compress(quantize(pixels));
    for (let k = 0; k < data.length; k += 255) {
      const block = data.subarray(k, k + 255);
      this.add([block.length]);
      this.parts.push(block);
    }
    this.add([0]);
  }

  finish(): Blob {
    this.add([0x3b]);
    return new Blob(this.parts as BlobPart[], { type: "image/gif" });
  }
}

function text(value: string): number[] {
  return [...value].map((c) => c.charCodeAt(0));
}
