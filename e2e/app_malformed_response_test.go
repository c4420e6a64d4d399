//go:build linux

package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
)

// TestUnambiguousMalformedResponsesAreForwarded makes an app send framing fields where no
// body is possible, fields with invalid names, and trailer fields that are not permitted
// there. Each response arrives without these fields: at the owner, at another node and at
// a gateway. The client connection carries the next request, and the owner logs the
// removed fields.
//
//nolint:tparallel // the log is read after all of its parts
func TestUnambiguousMalformedResponsesAreForwarded(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: 8, Secret: hasSecret(t), Flags: []string{"--bootstrap-expect", "3", "--key", "query:key"}})
	addr := c.Address(t)
	startRawApp(t, addr)
	owner, other, gateway := c.Prepare(t, "--upstream", "http://"+addr), c.Prepare(t, "--upstream", "http://"+addr), c.Prepare(t, "--upstream=")
	c.AddJoinFlags()
	for _, node := range c.Nodes() {
		node.Start(t)
	}
	key := c.AwaitServedBy(t, owner, other).Keys(owner.ID, 1)[0]
	framing := []string{"Content-Length", "Transfer-Encoding"}
	for _, tc := range []struct {
		name, response, upgrade string
		want                    string   // part of the headers
		dropped                 []string // fields that must be removed
		body                    string   // the bytes after the headers
	}{
		{name: "204 with Transfer-Encoding", response: "204 No Content\r\nTransfer-Encoding: chunked\r\nX-Is: 1\r\n\r\n", want: "204 No Content", dropped: framing},
		{name: "204 with chunks", response: "204 No Content\r\nTransfer-Encoding: chunked\r\nX-Is: 1\r\n\r\n3\r\nabc\r\n0\r\n\r\n", want: "204 No Content", dropped: framing},
		{name: "204 with a length", response: "204 No Content\r\nContent-Length: 3\r\nX-Is: 1\r\n\r\nabc", want: "204 No Content", dropped: framing},
		{name: "204 with both", response: "204 No Content\r\nContent-Length: x\r\nTransfer-Encoding: chunked\r\nX-Is: 1\r\n\r\n", want: "204 No Content", dropped: framing},
		{name: "304 with both", response: "304 Not Modified\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\nX-Is: 1\r\n\r\n", want: "304 Not Modified", dropped: framing},
		{name: "304 with a body", response: "304 Not Modified\r\nContent-Length: 3\r\nX-Is: 1\r\n\r\nabc", want: "304 Not Modified"},
		{
			name: "101 with Transfer-Encoding", response: "101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\nTransfer-Encoding: chunked\r\nX-Is: 1\r\n\r\n",
			upgrade: "echo", want: "101 Switching Protocols", dropped: framing,
		},
		{
			name: "101 with a length", response: "101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\nContent-Length: 0\r\nX-Is: 1\r\n\r\n",
			upgrade: "echo", want: "101 Switching Protocols", dropped: framing,
		},
		{
			name: "field with a bad name", response: "200 OK\r\nX(y): z\r\n w\r\nX-Is: 1\r\nContent-Length: 3\r\n\r\nabc",
			want: "200 OK", dropped: []string{"X(y)"}, body: "abc",
		},
		{
			name:     "forbidden trailer fields",
			response: "200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Content-Length\r\nX-Is: 1\r\n\r\n3\r\nabc\r\n0\r\nContent-Length: 7\r\nX-Sum: 1\r\nHost: h\r\n\r\n",
			want:     "200 OK", dropped: framing[:1], body: "3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
		},
		{
			name:     "trailer field with a bad name",
			response: "200 OK\r\nTransfer-Encoding: chunked\r\nX-Is: 1\r\n\r\n3\r\nabc\r\n0\r\nX(y): z\r\nX-Sum: 1\r\n\r\n",
			want:     "200 OK", body: "3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
		},
	} {
		for name, at := range map[string]*cluster.Node{"owner": owner, "other": other, "gateway": gateway} {
			t.Run(tc.name+" at "+name, func(t *testing.T) {
				conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at.Addr)
				must(t, err)
				defer func() { _ = conn.Close() }()
				must(t, conn.SetDeadline(time.Now().Add(cluster.AwaitTimeout)))
				r, fields := bufio.NewReader(conn), "Host: h\r\n"
				if tc.upgrade != "" {
					fields += "Connection: upgrade\r\nUpgrade: " + tc.upgrade + "\r\n"
				}
				_, err = fmt.Fprintf(conn, "GET /?key=%s&%s HTTP/1.1\r\n%s\r\n", key, respondWith("HTTP/1.1 "+tc.response), fields)
				must(t, err)
				head := readRawHead(t, r)
				if !strings.HasPrefix(head, "HTTP/1.1 "+tc.want+"\r\n") || !strings.Contains(head, "\r\nX-Is: 1\r\n") {
					t.Fatalf("got %q, want %s", head, tc.want)
				}
				for _, field := range tc.dropped {
					if strings.Contains(head, "\r\n"+field+":") {
						t.Errorf("%s is in %q", field, head)
					}
				}
				wantRawBytes(t, r, tc.body)
				if tc.upgrade != "" {
					_, err = io.WriteString(conn, "hello")
					must(t, err)
					wantRawBytes(t, r, "hello")
					return
				}
				_, err = fmt.Fprintf(conn, "GET /?key=%s&%s HTTP/1.1\r\nHost: h\r\n\r\n", key, respondWith("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext"))
				must(t, err)
				if head := readRawHead(t, r); !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") {
					t.Fatalf("the next response is %q", head)
				}
				wantRawBytes(t, r, "next")
			})
		}
	}
	b, err := os.ReadFile(filepath.Join(c.Dir(), "node-"+owner.ID+".log"))
	must(t, err)
	for _, want := range []string{"malformed response repaired", "framing fields on a response without a body", "trailer fields dropped", "Content-Length"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the log of the owner does not contain %q", want)
		}
	}
}

// readRawHead reads up to the end of a header section.
func readRawHead(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	var head strings.Builder
	for {
		line, err := r.ReadString('\n')
		head.WriteString(line)
		if err != nil {
			t.Fatalf("%v after %q", err, head.String())
		}
		if line == "\r\n" {
			return head.String()
		}
	}
}

// wantRawBytes reads these bytes.
func wantRawBytes(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); string(got) != want {
		t.Fatalf("read %q, %v; want %q", got[:n], err, want)
	}
}
