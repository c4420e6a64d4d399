package logsafe

import (
	"strings"
	"unicode"
)

// maxOneLine is the maximum size of OneLine's result, in bytes.
const maxOneLine = 300

// OneLine makes text from an app or another node safe to display: at most 300 bytes, one line, and no
// control characters for a terminal.
func OneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, text[:min(len(text), maxOneLine)])
	return strings.TrimSpace(text)
}
