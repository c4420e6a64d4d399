package h1

import "slices"

// hostByte contains true for the bytes of a reg-name (RFC 3986 section 3.2.2), except comma and
// percent sign. Lists and escapes in hosts have been used for attacks, and no client needs them.
var hostByte = func() (t [256]bool) {
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = true, true
	}
	for _, c := range "-._~!$&'()*+;=" {
		t[c] = true
	}
	return t
}()

// validAuthority reports whether b is a host with an optional port. User information, lists and
// paths are invalid.
func validAuthority(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	if b[0] == '[' {
		return validLiteral(b)
	}
	i := 0
	for i < len(b) && hostByte[b[i]] {
		i++
	}
	return i > 0 && validPort(b[i:])
}

// startsWithEscape reports whether b starts with a complete percent escape.
func startsWithEscape(b []byte) bool {
	return len(b) >= 3 && unhex(b[1]) >= 0 && unhex(b[2]) >= 0
}

// validLiteral reports whether b is "[IPv6]" with an optional port. Zones and future versions are
// invalid. It does not check whether the colons and digits form an address, because the proxy does
// not dial it.
func validLiteral(b []byte) bool {
	colons, i := 0, 1
	for ; i < len(b) && b[i] != ']'; i++ {
		switch c := b[i]; {
		case c == ':':
			colons++
		case c == '.' || unhex(c) >= 0:
		default:
			return false
		}
	}
	return i < len(b) && colons >= 2 && i < 47 && validPort(b[i+1:])
}

// validPort reports whether b, the part after a host, is empty or consists of a colon and up to
// five digits.
func validPort(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if b[0] != ':' || len(b) > 6 {
		return false
	}
	n := 0
	for _, c := range b[1:] {
		if c < '0' || c > '9' {
			return false
		}
		n = n*10 + int(c-'0')
	}
	return n <= 65535
}

// sameAuthority reports whether two valid authorities name the same host and port. The default
// port is 443 with https and 80 without.
func sameAuthority(a, b []byte, https bool) bool {
	a, b = withoutPort(a, https), withoutPort(b, https)
	return len(a) == len(b) && equalFoldSameLen(a, b)
}

// withoutPort returns a valid authority without the default port of its scheme, which may have
// leading zeros, and without an empty port.
func withoutPort(b []byte, https bool) []byte {
	want := 80
	if https {
		want = 443
	}
	n, place := 0, 1
	for i, c := range slices.Backward(b) {
		switch {
		case c == ':' && (place == 1 || n == want):
			return b[:i]
		case c < '0' || c > '9':
			return b
		default:
			n += int(c-'0') * place
			place *= 10
		}
	}
	return b
}

// unhex returns the value of a hexadecimal digit, or -1 for any other byte.
func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
