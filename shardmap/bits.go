package shardmap

// bitWriter appends numbers of few bits to b, lowest bits first.
type bitWriter struct {
	b   []byte
	acc uint64
	n   int // bits in acc that are not in b yet: fewer than 8
}

// put appends the low width bits of v; width ≤ 17, and v has no more.
func (p *bitWriter) write(v uint64, width int) {
	p.acc |= v << p.n
	p.n += width
	for p.n >= 8 {
		p.b = append(p.b, byte(p.acc))
		p.acc >>= 8
		p.n -= 8
	}
}

// flush pads with zeros to a whole byte.
func (p *bitWriter) flush() {
	if p.n > 0 {
		p.b = append(p.b, byte(p.acc))
	}
	p.acc, p.n = 0, 0
}

// bitReader reads what bitWriter wrote. The caller has made sure that b is long enough.
type bitReader struct {
	b   []byte
	acc uint64
	n   int
}

func (u *bitReader) read(width int) uint64 {
	for u.n < width {
		u.acc |= uint64(u.b[0]) << u.n
		u.b = u.b[1:]
		u.n += 8
	}
	v := u.acc & (1<<width - 1)
	u.acc >>= width
	u.n -= width
	return v
}

// clean reports whether nothing but zero padding is left.
func (u *bitReader) onlyPadding() bool { return u.acc == 0 && len(u.b) == 0 }
