package forwarded

import "shardway/proxy/h1"

// Lengths and places in a traceparent (W3C Trace Context, level 1, section 3.2.2):
//
//	00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
const (
	traceBegin, traceEnd = 3, 35
	spanBegin, spanEnd   = 36, 52
	traceparentLen       = 55
)

// TraceID returns the trace that the request's one traceparent names, nil if it names
// none: what is not valid is no trace, and nobody shall look for it.
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
	case !hexadecimal(version) || string(version) == "ff" || !hexadecimal(flags):
		return nil
	case !hexadecimal(trace) || zeros(trace) || !hexadecimal(span) || zeros(span):
		return nil
	case longer && (string(version) == "00" || v[traceparentLen] != '-'):
		return nil // a later version may say more, behind a dash
	}
	return trace
}

// hexadecimal reports lower-case digits, which is all that the standard allows.
func hexadecimal(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func zeros(b []byte) bool {
	for _, c := range b {
		if c != '0' {
			return false
		}
	}
	return true
}
