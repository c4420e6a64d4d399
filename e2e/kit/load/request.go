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

// Request is a request to send.
type Request struct {
	// ID must be unique in the test. It is sent in App-Id.
	ID string
	// Key is sent in X-Shard-Key. Without a key, the header is omitted.
	Key string
	// Method is GET if empty.
	Method string
	// Path is that of the service of the key if empty: /SERVICE/ for keys of ServiceKey, and "/" for others.
	Path string
	// Header is sent in addition to App-Id and X-Shard-Key.
	Header map[string]string
	// Body is sent with a Content-Length if it is not nil.
	Body []byte
	// Timeout is the timeout of the whole request, including retries. 0 means one minute.
	Timeout time.Duration
}

// defaultTimeout is the timeout of a request, including its retries.
const defaultTimeout = time.Minute

// withDefaults returns the request with its defaults.
func (r Request) withDefaults() Request {
	r.Method = cmp.Or(r.Method, http.MethodGet)
	r.Path = cmp.Or(r.Path, DefaultPath(r.Key))
	r.Timeout = cmp.Or(r.Timeout, defaultTimeout)
	return r
}

// encode returns the request in wire format, for a single write.
func (r Request) encode(host string) []byte {
	var buf bytes.Buffer
	fmt.Fprintf(&buf, "%s %s HTTP/1.1\r\nHost: %s\r\nApp-Id: %s\r\n", r.Method, r.Path, host, r.ID)
	if r.Key != "" {
		fmt.Fprintf(&buf, "X-Shard-Key: %s\r\n", r.Key)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		fmt.Fprintf(&buf, "%s: %s\r\n", name, r.Header[name])
	}
	if r.Body != nil {
		fmt.Fprintf(&buf, "Content-Length: %d\r\n", len(r.Body))
	}
	buf.WriteString("\r\n")
	buf.Write(r.Body)
	return buf.Bytes()
}
