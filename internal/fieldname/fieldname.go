// Package fieldname contains the rules for names of header fields, which parsers, key sources and header
// rules share.
//
// Apps may read fields with different names as one field: CGI, for example, gives X-User and X_User the same
// variable. Such names have the same normal name. All parts of Shardway must normalize names alike, because one
// part could otherwise accept a field that another one replaces.
package fieldname

// tokenByte contains true for the bytes of a token.
var tokenByte = func() (t [256]bool) {
	for _, c := range "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" {
		t[c] = true
	}
	return t
}()

// IsTokenByte reports whether a token may contain c.
func IsTokenByte(c byte) bool { return tokenByte[c] }

// IsToken reports whether text is a token (RFC 9110, section 5.6.2), as the names of header fields and
// cookies are.
func IsToken[Text ~string | ~[]byte](text Text) bool {
	for i := range len(text) {
		if !tokenByte[text[i]] {
			return false
		}
	}
	return len(text) > 0
}

// NormalizeByte returns c in lower case, or '-' if c is neither a letter nor a digit.
func NormalizeByte(c byte) byte {
	switch {
	case c-'A' < 26:
		return c | 0x20
	case c-'a' < 26, c-'0' < 10:
		return c
	}
	return '-'
}

// Normalize returns the normal name of a field: NormalizeByte of each byte.
func Normalize(name string) string {
	normal := []byte(name)
	for i, c := range normal {
		normal[i] = NormalizeByte(c)
	}
	return string(normal)
}

// HasNormal reports whether normal is the normal name of a field. It allocates nothing.
func HasNormal[Text ~string | ~[]byte](name Text, normal string) bool {
	if len(name) != len(normal) {
		return false
	}
	for i := range len(name) {
		if NormalizeByte(name[i]) != normal[i] {
			return false
		}
	}
	return true
}
