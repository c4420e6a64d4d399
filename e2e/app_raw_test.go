//go:build linux

package e2e_test

import (
	"encoding/base64"
	"net"
	"os"
	"os/exec"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/procgroup"
)

// rawAppScript is an app that responds to each request with the bytes in its query, and
// echoes all bytes after a 101.
const rawAppScript = `
import base64, socket, sys, threading, urllib.parse

def serve(conn):
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            chunk = conn.recv(65536)
            if not chunk:
                return
            data += chunk
        head, data = data.split(b"\r\n\r\n", 1)
        query = urllib.parse.urlsplit(head.split(b" ")[1].decode()).query
        values = urllib.parse.parse_qs(query).get("response")
        response = base64.urlsafe_b64decode(values[0]) if values else b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        conn.sendall(response)
        while response.startswith(b"HTTP/1.1 101"):
            conn.sendall(data)
            data = conn.recv(65536)
            if not data:
                return

def run(conn):
    try:
        serve(conn)
    except OSError:
        pass
    conn.close()

host, port = sys.argv[1].rsplit(":", 1)
listener = socket.create_server((host, int(port)))
while True:
    threading.Thread(target=run, args=(listener.accept()[0],), daemon=True).start()
`

// startRawApp runs rawAppScript until the test ends.
func startRawApp(t *testing.T, addr string) {
	t.Helper()
	app := exec.Command("python3", scriptFile(t, rawAppScript), addr)
	app.Stderr = os.Stderr
	startProgram(t, app, addr)
}

// startProgram runs a program until the test ends, and returns when it listens.
func startProgram(t *testing.T, cmd *exec.Cmd, addr string) {
	t.Helper()
	if _, err := exec.LookPath(cmd.Args[0]); err != nil {
		t.Skipf("%s is not installed", cmd.Args[0])
	}
	wait, err := procgroup.Start(cmd)
	must(t, err)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = wait()
	})
	cluster.Await(t, cmd.Args[0]+" listens", func() error {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// respondWith returns the query with which rawAppScript sends these bytes.
func respondWith(response string) string {
	return "response=" + base64.URLEncoding.EncodeToString([]byte(response))
}
