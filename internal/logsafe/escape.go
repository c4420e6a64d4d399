package logsafe

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Harmless returns a writer of lines of JSON that escapes what commands a terminal on which
// somebody reads them, or turns the order of what it shows. JSON demands that of the first 32
// characters only, and what strangers send stands in some lines.
func Harmless(w io.Writer) io.Writer { return harmless{w} }

type harmless struct{ w io.Writer }

func (h harmless) Write(line []byte) (int, error) {
	for i := 0; i < len(line); {
		r, size := rune(line[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(line[i:])
		}
		if r >= 0x7f && Commands(r) {
			if _, err := h.w.Write(escaped(line, i)); err != nil {
				return 0, err
			}
			return len(line), nil
		}
		i += size
	}
	return h.w.Write(line)
}

// Commands reports whether a terminal does something else with a character than show it.
func Commands(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// escaped is a line whose first such character is at i.
func escaped(line []byte, i int) []byte {
	out := append(make([]byte, 0, len(line)+64), line[:i]...)
	for i < len(line) {
		r, size := utf8.DecodeRune(line[i:])
		if r < 0x7f || !Commands(r) {
			out = append(out, line[i:i+size]...)
		} else {
			for _, u := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04x`, u)
			}
		}
		i += size
	}
	return out
}
