package shardkey

// AppendHeaderValue appends a key as the value of the Shardway-Key header. Visible ASCII characters except %, and
// spaces other than at the ends, stay unchanged. All other bytes are percent-encoded. AppendDecoded always restores
// the key.
func AppendHeaderValue(dst, key []byte) []byte {
	for i, c := range key {
		isInner := i > 0 && i < len(key)-1
		isVisible := c > ' ' && c < 0x7f
		isUnchanged := isVisible && c != '%' || c == ' ' && isInner
		if isUnchanged {
			dst = append(dst, c)
			continue
		}
		const digits = "0123456789ABCDEF"
		dst = append(dst, '%', digits[c>>4], digits[c&15])
	}
	return dst
}

// AppendDecoded appends the key encoded by AppendHeaderValue. ok is false if the percent-encoding of value is
// invalid; then the result ends before the first invalid byte.
func AppendDecoded(dst, value []byte) (key []byte, ok bool) {
	for i := 0; i < len(value); i++ {
		if value[i] != '%' {
			dst = append(dst, value[i])
			continue
		}
		if i+2 >= len(value) {
			return dst, false
		}
		high, highOK := hexDigit(value[i+1])
		low, lowOK := hexDigit(value[i+2])
		if !highOK || !lowOK {
			return dst, false
		}
		dst = append(dst, high<<4|low)
		i += 2
	}
	return dst, true
}

// hexDigit returns the value of an upper-case hexadecimal digit.
func hexDigit(c byte) (value byte, ok bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
