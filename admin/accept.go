package admin

import (
	"mime"
	"strconv"
	"strings"
)

// prefersHTML reports whether a client rather has HTML than JSON by its Accept
// (RFC 9110, section 12.5.1). Equally welcome, as for curl's */*, means JSON.
func prefersHTML(accept []string) bool {
	html, json := quality{}, quality{}
	for _, line := range accept {
		for entry := range strings.SplitSeq(line, ",") {
			t, p, err := mime.ParseMediaType(entry)
			if err != nil {
				continue
			}
			q := 1.0
			if s, ok := p["q"]; ok {
				if q, err = strconv.ParseFloat(s, 64); err != nil || q < 0 || q > 1 {
					continue
				}
			}
			html.take(t, "text/html", q)
			json.take(t, "application/json", q)
		}
	}
	return html.q > json.q
}

// quality is the q-value that the most specific range seen so far gives a type.
type quality struct {
	q        float64
	specific int
}

func (x *quality) take(rang, mediaType string, q float64) {
	specific := 0
	switch major, _, _ := strings.Cut(mediaType, "/"); rang {
	case mediaType:
		specific = 3
	case major + "/*":
		specific = 2
	case "*/*":
		specific = 1
	}
	if specific > x.specific {
		x.q, x.specific = q, specific
	}
}
