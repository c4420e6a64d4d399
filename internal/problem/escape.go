package problem

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// appendEscaped appends text as the content of a JSON string, without the quotes. In addition to
// the characters that JSON requires (RFC 8259, section 7), it escapes <, >, &, U+2028 and U+2029.
// The text may contain client input, and an app may embed it in an HTML page. Invalid UTF-8 becomes
// U+FFFD.
func appendEscaped(dst []byte, text string) []byte {
	copied := 0
	for i := 0; i < len(text); {
		char := text[i]
		if char < utf8.RuneSelf {
			if char >= ' ' && char != '"' && char != '\\' && char != '<' && char != '>' && char != '&' && char != 0x7f {
				i++
				continue
			}
			dst = append(dst, text[copied:i]...)
			dst = appendASCII(dst, char)
			i++
			copied = i
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if (r != utf8.RuneError || size > 1) && r != 0x2028 && r != 0x2029 {
			i += size
			continue
		}
		dst = append(dst, text[copied:i]...)
		dst = append(dst, `\u`...)
		dst = append(dst, hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
		i += size
		copied = i
	}
	return append(dst, text[copied:]...)
}

// appendASCII appends the JSON escape of a control character, a quotation mark or a backslash.
func appendASCII(dst []byte, char byte) []byte {
	switch char {
	case '"', '\\':
		return append(dst, '\\', char)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[char>>4], hexDigits[char&15])
	}
}
