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
	quality, otherQuality := qualities(accept, one, other)
	return quality > otherQuality
}

// accepts reports whether the Accept header permits a media type.
func accepts(accept []string, mediaType string) bool {
	quality, _ := qualities(accept, mediaType, mediaType)
	return quality > 0 || strings.Join(accept, "") == ""
}

// qualities returns the q-values of two media types in the Accept header (RFC 9110, section
// 12.5.1). It ignores malformed entries.
func qualities(accept []string, preferred, alternative string) (preferredQuality, alternativeQuality float64) {
	var forPreferred, forAlternative quality
	for _, line := range accept {
		for entry := range strings.SplitSeq(line, ",") {
			mediaRange, q, ok := parseMediaRange(entry)
			if ok {
				forPreferred.update(mediaRange, preferred, q)
				forAlternative.update(mediaRange, alternative, q)
			}
		}
	}
	return forPreferred.value, forAlternative.value
}

// parseMediaRange parses an entry of the Accept header, such as "text/html;q=0.8". ok is false if it
// is malformed.
func parseMediaRange(entry string) (mediaRange string, weight float64, ok bool) {
	mediaRange, params, err := mime.ParseMediaType(entry)
	if err != nil {
		return "", 0, false
	}
	text, hasQuality := params["q"]
	if !hasQuality {
		return mediaRange, 1, true
	}
	weight, err = strconv.ParseFloat(text, 64)
	isValid := err == nil && weight >= 0 && weight <= 1
	return mediaRange, weight, isValid
}

// quality is the q-value of a media type, from the most specific media range so far that matches it.
type quality struct {
	value       float64
	specificity int // of the media range: 3 for type/subtype, 2 for type/*, 1 for */*; zero means none matched
}

// update applies a media range with the value weight if it matches mediaType and is more specific than the
// previous ranges.
func (x *quality) update(mediaRange, mediaType string, weight float64) {
	specificity := 0
	majorType, _, _ := strings.Cut(mediaType, "/")
	switch mediaRange {
	case mediaType:
		specificity = 3
	case majorType + "/*":
		specificity = 2
	case "*/*":
		specificity = 1
	}
	if specificity > x.specificity {
		x.value, x.specificity = weight, specificity
	}
}
