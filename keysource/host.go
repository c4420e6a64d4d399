package keysource

import "bytes"

// maxHost is the maximum length of a host name (RFC 1035, section 2.3.4).
const maxHost = 253

// HostName returns the name in a Host field: in lower case, without the port and a final dot. It uses dst
// as the buffer if the name has upper-case letters. ok is false if the field contains no host name. Apps
// may read such a field in different ways. An empty field has the empty name. An IPv6 address keeps its
// brackets.
func HostName(dst, field []byte) (name []byte, ok bool) {
	name = field
	colon := bytes.LastIndexByte(name, ':')
	startsPort := colon >= 0 && bytes.IndexByte(name[colon:], ']') < 0 // the colons of [IPv6] do not
	if startsPort {
		if !isPort(name[colon+1:]) {
			return nil, false
		}
		name = name[:colon]
	}
	name = bytes.TrimSuffix(name, []byte("."))
	if len(name) == 0 {
		return nil, len(field) == 0
	}
	if name[0] == '[' {
		return name, isAddressLiteral(name)
	}
	upperCase, ok := checkHostName(name)
	if !ok || !upperCase {
		return name, ok
	}
	dst = dst[:0]
	for _, c := range name {
		dst = append(dst, lowerCase(c))
	}
	return dst, true
}

// checkHostName reports whether name consists of non-empty labels of letters, digits, hyphens and
// underscores, and whether it has upper-case letters.
func checkHostName(name []byte) (upperCase, ok bool) {
	afterDot := true // the next byte begins a label
	for _, c := range name {
		switch {
		case c >= 'A' && c <= 'Z':
			upperCase = true
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
		case c == '.' && !afterDot:
		default:
			return false, false
		}
		afterDot = c == '.'
	}
	return upperCase, !afterDot && len(name) <= maxHost
}

// isAddressLiteral reports whether name consists of the characters of an IPv6 address in brackets. Otherwise an app
// that ignores the brackets could read a host name.
func isAddressLiteral(name []byte) bool {
	const shortest = len("[::]")
	if len(name) < shortest || len(name) > maxHost || name[len(name)-1] != ']' {
		return false
	}
	hasColon := false
	for _, c := range name[1 : len(name)-1] {
		hasColon = hasColon || c == ':'
		if c != ':' && c != '.' && unhex(c) > 15 {
			return false
		}
	}
	return hasColon
}

// isPort reports whether text consists of up to five digits. A port may be empty (RFC 3986, section
// 3.2.3).
func isPort(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(text) <= 5
}
