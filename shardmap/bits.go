package shardmap

// bitWriter appends numbers of few bits to out, starting with the lowest bits.
type bitWriter struct {
	out      []byte
	bits     uint64
	bitCount int // number of bits in bits that are not in out yet, less than 8
}

// write appends the low width bits of v. width must be at most 17, and v must not have more bits.
func (w *bitWriter) write(v uint64, width int) {
	w.bits |= v << w.bitCount
	w.bitCount += width
	for w.bitCount >= 8 {
		w.out = append(w.out, byte(w.bits))
		w.bits >>= 8
		w.bitCount -= 8
	}
}

// flush pads the last byte with zero bits.
func (w *bitWriter) flush() {
	if w.bitCount > 0 {
		w.out = append(w.out, byte(w.bits))
	}
	w.bits, w.bitCount = 0, 0
}

// bitReader reads numbers that bitWriter has written. The caller must ensure that in is long enough.
type bitReader struct {
	in       []byte
	bits     uint64
	bitCount int // number of bits in bits that were not returned yet
}

// read returns the next number of width bits.
func (r *bitReader) read(width int) uint64 {
	for r.bitCount < width {
		r.bits |= uint64(r.in[0]) << r.bitCount
		r.in = r.in[1:]
		r.bitCount += 8
	}
	v := r.bits & (1<<width - 1)
	r.bits >>= width
	r.bitCount -= width
	return v
}

// onlyPadding reports whether only zero padding remains.
func (r *bitReader) onlyPadding() bool { return r.bits == 0 && len(r.in) == 0 }
