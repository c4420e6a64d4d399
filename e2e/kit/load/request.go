//go:build linux

package load

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Request is one request to send.
type Request struct {
	// ID must be unique in the test; it travels in App-Id.
	ID string
	// Key travels in X-Shard-Key; without one the header is left out.
	Key string
	// Method is GET if empty.
	Method string
	// Path is "/" if empty.
	Path string
	// Header is sent beside App-Id and X-Shard-Key.
	Header map[string]string
	// Body is sent with a Content-Length if it is not nil.
	Body []byte
	// Timeout bounds the whole request, re-attempts included. 0 is a minute.
	Timeout time.Duration
}

// normal fills in the defaults.
func (r Request) normal() Request {
	r.Method = cmp.Or(r.Method, http.MethodGet)
	r.Path = cmp.Or(r.Path, "/")
	r.Timeout = cmp.Or(r.Timeout, time.Minute)
	return r
}

// encode is the request on the wire, to be sent in one write.
func (r Request) encode(host string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nApp-Id: %s\r\n", r.Method, r.Path, host, r.ID)
	if r.Key != "" {
		fmt.Fprintf(&b, "X-Shard-Key: %s\r\n", r.Key)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		fmt.Fprintf(&b, "%s: %s\r\n", name, r.Header[name])
	}
	if r.Body != nil {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.Body))
	}
	b.WriteString("\r\n")
	b.Write(r.Body)
	return b.Bytes()
}
