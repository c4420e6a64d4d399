package admin

import (
	"mime"
	"strconv"
	"strings"
)

// prefersHTML reports whether the Accept header prefers HTML to JSON. Equal preference, as with
// */* of curl, means JSON.
func prefersHTML(accept []string) bool { return prefers(accept, "text/html", "application/json") }

// prefers reports whether the Accept header prefers the first media type to the second.
func prefers(accept []string, one, other string) bool {
	x, y := qualities(accept, one, other)
	return x > y
}

// accepts reports whether the Accept header permits a media type.
func accepts(accept []string, mediaType string) bool {
	x, _ := qualities(accept, mediaType, mediaType)
	return x > 0 || strings.Join(accept, "") == ""
}

// qualities returns the q-values of two media types in the Accept header (RFC 9110, section
// 12.5.1).
func qualities(accept []string, one, other string) (float64, float64) {
	x, y := quality{}, quality{}
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
			x.update(t, one, q)
			y.update(t, other, q)
		}
	}
	return x.q, y.q
}

// quality is the q-value of a media type, from the most specific matching range so far.
type quality struct {
	q        float64
	specific int
}

// update applies one media range if it matches mediaType and is more specific than the previous
// ranges.
func (x *quality) update(rang, mediaType string, q float64) {
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
