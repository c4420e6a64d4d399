package shardmap

// bitWriter appends numbers of few bits to b, starting with the lowest bits.
type bitWriter struct {
	b   []byte
	acc uint64
	n   int // number of bits in acc that are not in b yet, less than 8
}

// write appends the low width bits of v. width must be at most 17, and v must not have more bits.
func (w *bitWriter) write(v uint64, width int) {
	w.acc |= v << w.n
	w.n += width
	for w.n >= 8 {
		w.b = append(w.b, byte(w.acc))
		w.acc >>= 8
		w.n -= 8
	}
}

// flush pads the last byte with zero bits.
func (w *bitWriter) flush() {
	if w.n > 0 {
		w.b = append(w.b, byte(w.acc))
	}
	w.acc, w.n = 0, 0
}

// bitReader reads numbers that bitWriter has written. The caller must ensure that b is long enough.
type bitReader struct {
	b   []byte
	acc uint64
	n   int
}

func (r *bitReader) read(width int) uint64 {
	for r.n < width {
		r.acc |= uint64(r.b[0]) << r.n
		r.b = r.b[1:]
		r.n += 8
	}
	v := r.acc & (1<<width - 1)
	r.acc >>= width
	r.n -= width
	return v
}

// onlyPadding reports whether no bits but zero padding are left.
func (r *bitReader) onlyPadding() bool { return r.acc == 0 && len(r.b) == 0 }
