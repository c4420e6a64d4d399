package proxy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// checker is an app that validates each received byte with its own parser, independently of the
// proxy's code. It responds to each request with its method, target and body, and records each
// complete request.
type checker struct {
	t    *testing.T
	addr string

	mu     sync.Mutex
	bad    func(conn net.Conn) bool // answers /bad in its own way; returns false to close the connection
	seen   []string                 // "METHOD target body"
	cut    int                      // number of truncated requests
	asked  int                      // number of ordinary requests of the test; each has its own path
	faults []string
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	k := &checker{t: t}
	k.addr = rawApp(t, k.serve)
	t.Cleanup(func() {
		for _, f := range k.faults {
			t.Errorf("the app got %s", f)
		}
	})
	return k
}

func (k *checker) serve(conn net.Conn, r *bufio.Reader) {
	for {
		text, err := k.request(r)
		k.mu.Lock()
		var fault faulty
		switch {
		case err == nil:
			k.seen = append(k.seen, text)
		case errors.Is(err, io.ErrUnexpectedEOF):
			k.cut++
		case errors.As(err, &fault):
			k.faults = append(k.faults, string(fault))
		}
		bad := k.bad
		k.mu.Unlock()
		if err != nil {
			return
		}
		if strings.Contains(text, " /bad ") && bad != nil {
			if !bad(conn) {
				return
			}
			continue
		}
		head := ""
		if !strings.HasPrefix(text, "HEAD ") {
			head = text
		}
		if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), head); err != nil {
			return
		}
	}
}

// take returns the requests that were completed since the last call, and the number of truncated
// requests.
func (k *checker) take() (seen []string, cut int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	seen, cut = k.seen, k.cut
	k.seen, k.cut = nil, 0
	return seen, cut
}

// faulty is the error of an invalid request.
type faulty string

func (f faulty) Error() string { return string(f) }

var (
	requestLine = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+ (/[!-~]*|\\*) HTTP/1\\.1$")
	headerLine  = regexp.MustCompile("^([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?([^\\x00-\\x08\\x0a-\\x1f\\x7f]*)$")
	chunkLine   = regexp.MustCompile("^[0-9a-f]{1,15}$")
	unusual     = regexp.MustCompile("[^a-z0-9]") // characters that some servers treat as -
	hopByHop    = []string{"keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "upgrade", "x-named"}
	once        = []string{
		"host", "content-length", "transfer-encoding", "x-request-id", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
		"shardway-shard", "shardway-epoch", "shardway-node", "shardway-key", "content-type",
	}
)

// line reads one line that must end in CRLF and must contain no other CR or LF.
func (k *checker) line(r *bufio.Reader) (string, error) {
	s, err := r.ReadString('\n')
	if err != nil {
		return s, err
	}
	text, ok := strings.CutSuffix(s, "\r\n")
	if !ok || strings.ContainsAny(text, "\r\n\x00") {
		return "", faulty(fmt.Sprintf("a bad line %q", s))
	}
	return text, nil
}

// request reads one request. It returns io.EOF if there is none.
func (k *checker) request(r *bufio.Reader) (string, error) {
	first, err := k.line(r)
	if err != nil {
		if first == "" {
			return "", err
		}
		return "", io.ErrUnexpectedEOF
	}
	if !requestLine.MatchString(first) {
		return "", faulty(fmt.Sprintf("a bad request line %q", first))
	}
	fields, err := k.fields(r)
	if err != nil {
		return "", err
	}
	for _, name := range once {
		if len(fields[name]) > 1 {
			return "", faulty(fmt.Sprintf("%s: %s twice", first, name))
		}
	}
	for _, name := range hopByHop {
		if len(fields[name]) > 0 {
			return "", faulty(fmt.Sprintf("%s with %s", first, name))
		}
	}
	for name := range fields {
		if strings.HasPrefix(name, "shardway-") && !slices.Contains(once, name) ||
			strings.HasPrefix(name, "x-forwarded-") && !slices.Contains(once, name) {
			return "", faulty(fmt.Sprintf("%s with %s", first, name))
		}
	}
	for _, name := range []string{"host", "shardway-shard", "shardway-epoch", "shardway-key", "shardway-node", "via", "x-forwarded-for", "x-request-id"} {
		if len(fields[name]) == 0 {
			return "", faulty(fmt.Sprintf("%s without %s", first, name))
		}
	}
	body, err := k.body(r, fields)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return strings.TrimSuffix(first, " HTTP/1.1") + " " + body, err
}

// fields reads header lines up to the empty line.
func (k *checker) fields(r *bufio.Reader) (map[string][]string, error) {
	fields := make(map[string][]string)
	for {
		text, err := k.line(r)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil || text == "" {
			return fields, err
		}
		m := headerLine.FindStringSubmatch(text)
		if m == nil || strings.Trim(m[2], " \t") != m[2] && m[2] != "" && !strings.HasSuffix(m[2], " ") {
			return nil, faulty(fmt.Sprintf("a bad header line %q", text))
		}
		// CGI, WSGI and PHP normalize names like this.
		name := unusual.ReplaceAllString(strings.ToLower(m[1]), "-")
		fields[name] = append(fields[name], m[2])
	}
}

func (k *checker) body(r *bufio.Reader, fields map[string][]string) (string, error) {
	length, coding := fields["content-length"], fields["transfer-encoding"]
	switch {
	case len(length) > 0 && len(coding) > 0:
		return "", faulty("both Content-Length and Transfer-Encoding")
	case len(length) > 0:
		n, err := strconv.ParseUint(length[0], 10, 40)
		if err != nil || length[0] != strconv.FormatUint(n, 10) {
			return "", faulty(fmt.Sprintf("Content-Length %q", length[0]))
		}
		b := make([]byte, n)
		_, err = io.ReadFull(r, b)
		return string(b), err
	case len(coding) == 0:
		return "", nil
	case coding[0] != "chunked":
		return "", faulty(fmt.Sprintf("Transfer-Encoding %q", coding[0]))
	}
	var all strings.Builder
	for {
		size, err := k.line(r)
		if err != nil {
			return "", err
		}
		if !chunkLine.MatchString(size) {
			return "", faulty(fmt.Sprintf("a chunk line %q", size))
		}
		n, _ := strconv.ParseInt(size, 16, 62) // the regular expression has validated it
		if n == 0 {
			trailers, err := k.fields(r)
			for _, name := range slices.Concat(once, hopByHop, []string{"authorization", "te", "trailer", "connection"}) {
				if len(trailers[name]) > 0 {
					return "", faulty("a trailer " + name)
				}
			}
			for name := range trailers {
				if strings.HasPrefix(name, "shardway-") || strings.HasPrefix(name, "x-forwarded-") {
					return "", faulty("a trailer " + name)
				}
			}
			return all.String(), err
		}
		if _, err := io.CopyN(&all, r, n); err != nil {
			return "", err
		}
		if end, err := k.line(r); err != nil || end != "" {
			return "", errors.Join(err, faulty(fmt.Sprintf("%q behind a chunk", end)))
		}
	}
}
