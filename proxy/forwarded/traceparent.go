package forwarded

import "shardway/proxy/h1"

// Offsets in a traceparent (W3C Trace Context, level 1, section 3.2.2):
//
//	00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
const (
	traceBegin, traceEnd = 3, 35
	spanBegin, spanEnd   = 36, 52
	traceparentLen       = 55
)

// TraceID returns the trace ID of the request, or nil unless it has exactly one valid traceparent. An invalid ID
// would match no trace.
func TraceID(req *h1.Request) []byte {
	const name = "traceparent"
	i := req.Find(name, 0)
	if i < 0 || req.Find(name, i+1) >= 0 {
		return nil
	}
	_, v := req.Field(i)
	if len(v) < traceparentLen || v[2] != '-' || v[traceEnd] != '-' || v[spanEnd] != '-' {
		return nil
	}
	version, flags := v[:2], v[spanEnd+1:traceparentLen]
	trace, span := v[traceBegin:traceEnd], v[spanBegin:spanEnd]
	switch longer := len(v) > traceparentLen; {
	case !isHex(version) || string(version) == "ff" || !isHex(flags):
		return nil
	case !isHex(trace) || isZero(trace) || !isHex(span) || isZero(span):
		return nil
	case longer && (string(version) == "00" || v[traceparentLen] != '-'):
		return nil // a later version may append fields after a dash
	}
	return trace
}

// isHex reports whether b consists of lowercase hexadecimal digits, as the standard requires.
func isHex(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// isZero reports whether b consists of zeros.
func isZero(b []byte) bool {
	for _, c := range b {
		if c != '0' {
			return false
		}
	}
	return true
}
