package admin

import (
	"mime"
	"strconv"
	"strings"
)

// prefersHTML reports whether a client rather has HTML than JSON by its Accept. Equally
// welcome, as for curl's */*, means JSON.
func prefersHTML(accept []string) bool { return prefers(accept, "text/html", "application/json") }

// prefers reports whether a client rather has one media type than another.
func prefers(accept []string, one, other string) bool {
	x, y := qualities(accept, one, other)
	return x > y
}

// accepts reports whether a client takes a media type at all.
func accepts(accept []string, mediaType string) bool {
	x, _ := qualities(accept, mediaType, mediaType)
	return x > 0 || strings.Join(accept, "") == ""
}

// qualities returns how welcome two media types are by an Accept (RFC 9110, section
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

// quality is the q-value that the most specific range seen so far gives a type.
type quality struct {
	q        float64
	specific int
}

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
