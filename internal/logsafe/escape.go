package logsafe

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// NewEscaper returns a writer for JSON lines that escapes characters which control a
// terminal or change the direction of displayed text. JSON requires escapes for the first
// 32 characters only, but log lines contain text from untrusted clients.
func NewEscaper(w io.Writer) io.Writer { return escaper{w} }

type escaper struct{ w io.Writer }

// Write writes one line. It escapes the line only if it contains control characters other than ASCII ones, which
// the encoder has already escaped.
func (e escaper) Write(line []byte) (int, error) {
	for i := 0; i < len(line); {
		r, size := rune(line[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(line[i:])
		}
		if r >= 0x7f && ControlsTerminal(r) {
			if _, err := e.w.Write(escapeFrom(line, i)); err != nil {
				return 0, err
			}
			return len(line), nil
		}
		i += size
	}
	return e.w.Write(line)
}

// ControlsTerminal reports whether a terminal interprets the character instead of
// displaying it.
func ControlsTerminal(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// escapeFrom returns the line with all such characters escaped. The first one is at index
// i.
func escapeFrom(line []byte, i int) []byte {
	escaped := append(make([]byte, 0, len(line)+64), line[:i]...)
	for i < len(line) {
		r, size := utf8.DecodeRune(line[i:])
		if r < 0x7f || !ControlsTerminal(r) {
			escaped = append(escaped, line[i:i+size]...)
		} else {
			for _, u := range utf16.Encode([]rune{r}) {
				escaped = fmt.Appendf(escaped, `\u%04x`, u)
			}
		}
		i += size
	}
	return escaped
}
