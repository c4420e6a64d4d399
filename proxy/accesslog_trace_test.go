package proxy_test

import (
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"shardway/proxy"
	"shardway/proxy/accesslog"
)

// An access log line contains the trace ID of its request. A traceparent that W3C Trace Context
// considers invalid is ignored.
func TestAccessLogContainsTraceID(t *testing.T) {
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	const good = "traceparent: 00-" + trace + "-" + span + "-01\r\n"
	bad := func(old, other string) string { return strings.Replace(good, old, other, 1) }
	var log journal
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.Access = &accesslog.Config{Log: zerolog.New(&log)} })
	c := n.dial()
	for i, tt := range []struct {
		lines string
		want  any
	}{
		{good, trace},
		{"TraceParent:  00-" + trace + "-" + span + "-00 \r\n", trace},
		{bad("00-", "cc-"), trace},
		{bad("-01\r", "-01-more\r"), nil},
		{bad("00-", "cc-")[:len(good)-2] + "-more\r\n", trace},
		{bad("00-", "cc-")[:len(good)-2] + "x\r\n", nil},
		{"", nil},
		{good + good, nil},
		{bad("00-", "ff-"), nil},
		{bad("00-", "0-"), nil},
		{bad(trace, strings.ToUpper(trace)), nil},
		{bad(trace, strings.Repeat("0", 32)), nil},
		{bad(span, strings.Repeat("0", 16)), nil},
		{bad(span, "b7ad6b716920333g"), nil},
		{bad("-01\r", "-\r"), nil},
		{bad("-01\r", "-0x\r"), nil},
		{bad("-01\r", "\r"), nil},
		{bad(trace, trace+"0"), nil},
		{"traceparent: \r\n", nil},
	} {
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n%s\r\n", tt.lines)
		c.answer("GET")
		if got := log.next(t, i+1)["trace_id"]; got != tt.want {
			t.Errorf("%q: trace_id = %v, want %v", tt.lines, got, tt.want)
		}
	}
}
