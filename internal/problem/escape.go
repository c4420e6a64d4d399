package problem

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// appendEscaped appends s as the inside of a JSON string. It escapes what JSON
// asks for (RFC 8259, section 7), and <, >, &, U+2028 and U+2029 too: the text
// may quote a client, and somebody will put it on a page. Bytes that are not
// UTF-8 become U+FFFD.
func appendEscaped(dst []byte, s string) []byte {
	plain := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' && c != 0x7f {
				i++
				continue
			}
			dst = append(dst, s[plain:i]...)
			dst = appendASCII(dst, c)
			i++
			plain = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if (r != utf8.RuneError || size > 1) && r != 0x2028 && r != 0x2029 {
			i += size
			continue
		}
		dst = append(dst, s[plain:i]...)
		dst = append(dst, `\u`...)
		dst = append(dst, hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
		i += size
		plain = i
	}
	return append(dst, s[plain:]...)
}

func appendASCII(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
}
