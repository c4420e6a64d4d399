//go:build linux

package e2e_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
)

const (
	earlyUpload   = 50 << 20
	earlyResponse = 300_000
	earlyRuns     = 20
)

// refuseUploads accepts connections until the test ends. After the headers of a request,
// it responds with 413 and a body of earlyResponse bytes, reads nothing more, and closes
// the connection after 2 s.
func refuseUploads(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	refusal := append([]byte("HTTP/1.1 413 Content Too Large\r\nContent-Length: "+strconv.Itoa(earlyResponse)+"\r\n\r\n"), make([]byte, earlyResponse)...)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				r := bufio.NewReader(conn)
				for line, err := r.ReadString('\n'); line != "\r\n"; line, err = r.ReadString('\n') {
					if err != nil {
						return
					}
				}
				if _, err := conn.Write(refusal); err == nil {
					<-time.After(2 * time.Second)
				}
			}()
		}
	}()
	return ln.Addr().String()
}

const earlyPython = `
import http.client, sys, urllib.parse
body = bytes(int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    c = http.client.HTTPConnection(sys.argv[3], timeout=60)
    try:
        c.request("PUT", sys.argv[4], body)
        r = c.getresponse()
        print(r.status, len(r.read()))
    except Exception as e:
        print("failed", repr(e))
    c.close()
`

const earlyNode = `
const [size, runs, host, path] = process.argv.slice(2);
(async () => {
  const body = Buffer.alloc(Number(size));
  for (let i = 0; i < Number(runs); i++) {
    try {
      const r = await fetch("http://" + host + path, {method: "PUT", body});
      console.log(r.status, (await r.arrayBuffer()).byteLength);
    } catch (e) {
      console.log("failed", e, e.cause);
    }
  }
})();
`

// TestEarlyRefusalOfUploadArrivesCompletely uploads 50 MiB to an app that responds at
// once with 300 kB: at its own node, at another node, and at a gateway. curl reads while
// it sends. http.client of Python sends everything before it reads.
func TestEarlyRefusalOfUploadArrivesCompletely(t *testing.T) {
	c := cluster.New(t, cluster.Options{
		Binaries: binaries(t), Shards: 8, Secret: hasSecret(t), Flags: []string{"--bootstrap-expect", "3", "--key", "query:key", "--upstream", "http://" + refuseUploads(t)},
	})
	owner, other, gateway := c.Prepare(t), c.Prepare(t), c.Prepare(t, "--upstream=")
	c.AddJoinFlags()
	for _, n := range c.Nodes() {
		n.Start(t)
	}
	path := "/?key=" + c.AwaitServedBy(t, owner, other).Keys(owner.ID, 1)[0]
	file := upload(t, earlyUpload)
	python, node := scriptFile(t, earlyPython), scriptFile(t, earlyNode)
	discard := filepath.Join(t.TempDir(), "out")
	want := strings.Repeat(fmt.Sprintln(413, earlyResponse), earlyRuns)
	size, runs := strconv.Itoa(earlyUpload), strconv.Itoa(earlyRuns)
	for _, at := range []struct {
		name string
		node *cluster.Node
	}{{"local", owner}, {"remote", other}, {"gateway", gateway}} {
		t.Run(at.name, func(t *testing.T) {
			t.Run("curl", func(t *testing.T) {
				var got strings.Builder
				for range earlyRuns {
					got.WriteString(runProgram(t, "curl", "-sS", "-H", "Expect:", "-T", file, "-o", discard, "-w", "%{http_code} %{size_download}\n", "http://"+at.node.Addr+path))
				}
				wantEarly(t, got.String(), want)
			})
			t.Run("python", func(t *testing.T) {
				wantEarly(t, runProgram(t, "python3", python, size, runs, at.node.Addr, path), want)
			})
			t.Run("node fetch", func(t *testing.T) {
				wantEarly(t, runProgram(t, "node", node, size, runs, at.node.Addr, path), want)
			})
		})
	}
	_ = os.Remove(discard) // it may not exist
}

func wantEarly(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("the responses are incomplete:\n%s", got)
	}
}
