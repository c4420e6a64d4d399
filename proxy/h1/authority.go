package h1

import "slices"

// hostByte contains true for the bytes of a reg-name (RFC 3986 section 3.2.2), except comma and
// percent sign. Lists and escapes in hosts have been used in attacks, and no client needs them.
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

// validAuthority reports whether authority is a host with an optional port. User information, lists
// and paths are invalid.
func validAuthority(authority []byte) bool {
	if len(authority) == 0 {
		return false
	}
	if authority[0] == '[' {
		return validIPLiteral(authority)
	}
	hostEnd := 0
	for hostEnd < len(authority) && hostByte[authority[hostEnd]] {
		hostEnd++
	}
	return hostEnd > 0 && validPort(authority[hostEnd:])
}

// startsWithEscape reports whether b starts with a complete percent escape.
func startsWithEscape(b []byte) bool {
	return len(b) >= 3 && unhex(b[1]) >= 0 && unhex(b[2]) >= 0
}

// validIPLiteral reports whether authority is "[IPv6]" with an optional port. Zones and future
// versions are invalid. It does not check whether the colons and digits form an address, because
// the proxy does not dial it.
func validIPLiteral(authority []byte) bool {
	colons, end := 0, 1
	for ; end < len(authority) && authority[end] != ']'; end++ {
		switch c := authority[end]; {
		case c == ':':
			colons++
		case c == '.' || unhex(c) >= 0:
		default:
			return false
		}
	}
	return end < len(authority) && colons >= 2 && end < 47 && validPort(authority[end+1:])
}

// validPort reports whether suffix, the part after a host, is empty or consists of a colon and up
// to five digits.
func validPort(suffix []byte) bool {
	if len(suffix) == 0 {
		return true
	}
	if suffix[0] != ':' || len(suffix) > 6 {
		return false
	}
	port := 0
	for _, c := range suffix[1:] {
		if c < '0' || c > '9' {
			return false
		}
		port = port*10 + int(c-'0')
	}
	return port <= 65535
}

// sameAuthority reports whether two valid authorities name the same host and port. The default
// port is 443 with https and 80 without.
func sameAuthority(a, b []byte, https bool) bool {
	a, b = withoutDefaultPort(a, https), withoutDefaultPort(b, https)
	return len(a) == len(b) && equalFoldSameLen(a, b)
}

// withoutDefaultPort returns a valid authority without the default port of its scheme, which may have
// leading zeros, and without an empty port.
func withoutDefaultPort(authority []byte, https bool) []byte {
	defaultPort := 80
	if https {
		defaultPort = 443
	}
	port, placeValue := 0, 1
	for i, c := range slices.Backward(authority) {
		switch {
		case c == ':' && (placeValue == 1 || port == defaultPort):
			return authority[:i]
		case c < '0' || c > '9':
			return authority
		default:
			port += int(c-'0') * placeValue
			placeValue *= 10
		}
	}
	return authority
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
