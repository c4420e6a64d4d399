package eventstream_test

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// reading is the state of a simple reference reader after the first bytes of a stream, which may be a
// resumed one.
type reading struct {
	between bool   // outside of events and lines
	id      string // last event ID
	goesOn  bool   // a request header can contain the id
	lines   int    // number of complete lines
}

// read reads a stream as specified in WHATWG HTML section 9.2.6, always from its start: it decodes the
// bytes, splits them into lines and parses each line.
func read(p []byte, from reading) reading {
	text := strings.TrimPrefix(string(p), "\uFEFF")
	complete := text[:strings.LastIndexAny(text, "\r\n")+1]
	r := reading{id: from.id, goesOn: from.goesOn}
	shown, spoilt := from.goesOn, false
	buffer, bad, open := from.id, false, false
	unified := strings.ReplaceAll(strings.ReplaceAll(complete, "\r\n", "\n"), "\r", "\n")
	for _, line := range strings.SplitAfter(unified, "\n") {
		if line == "" {
			continue
		}
		r.lines++
		line = strings.TrimSuffix(line, "\n")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			r.id, open = buffer, false
			shown, spoilt = shown || buffer != "", spoilt || bad
			continue
		case strings.HasPrefix(line, ":"):
			continue
		case field == "id" && !strings.Contains(value, "\x00"):
			buffer, bad = value, !carried(value)
		}
		open = true
	}
	r.goesOn = shown && !spoilt
	started := len(text) > len(complete) || bytes.HasPrefix([]byte("\uFEFF"), p) && len(p) > 0 && len(p) < 3
	r.between = !open && !started
	return r
}

// carried reports whether a request header can contain the id.
func carried(id string) bool {
	return len(id) <= 1<<10 && utf8.ValidString(id) &&
		!strings.ContainsFunc(id, func(c rune) bool { return c < ' ' || c == 0x7f })
}
