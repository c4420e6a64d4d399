package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
	"shardway/internal/cli"
)

// changingCluster is a cluster whose endpoints change.
type changingCluster struct {
	cluster
	mu   sync.Mutex
	rows []api.Endpoint
}

func (c *changingCluster) Endpoints() []api.Endpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.rows)
}

func (c *changingCluster) set(rows ...api.Endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows = rows
}

// listenAndServe serves the cluster at the address until stop is called.
func listenAndServe(t *testing.T, c api.Cluster, addr string) (at string, stop func()) {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- admin.New(admin.Options{API: apitest.SetOf(c)}).Serve(ctx, ln) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return ln.Addr().String(), stop
}

// endpoints --watch prints the list at the start and after each change, also after a restart of the node, and nothing
// while the list is the same. An interrupt is no error.
func TestWatchPrintsEachListOfEndpoints(t *testing.T) {
	row := func(node, addr string) api.Endpoint {
		return api.Endpoint{Node: node, Kind: api.KindNode, Name: "http", Addr: addr}
	}
	c := &changingCluster{rows: []api.Endpoint{row("a", "10.0.0.1:80")}}
	addr, stop := listenAndServe(t, c, "127.0.0.1:0")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out, in := io.Pipe()
	errOut, errIn := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- cli.Run(ctx, strings.Fields("endpoints --watch --name http --json --admin="+addr), nil, in, errIn)
		_, _ = in.Close(), errIn.Close()
	}()
	lists := bufio.NewScanner(out)
	next := func() (rows []api.Endpoint) {
		t.Helper()
		var list api.EndpointList
		if !lists.Scan() {
			t.Fatalf("no further list: %v", lists.Err())
		}
		if err := json.Unmarshal(lists.Bytes(), &list); err != nil {
			t.Fatalf("%s: %v", lists.Bytes(), err)
		}
		return list.Endpoints
	}
	check := func(what string, want ...api.Endpoint) {
		t.Helper()
		if got := next(); !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
	}
	check("first", row("a", "10.0.0.1:80"))
	c.set(row("a", "10.0.0.1:80"), api.Endpoint{Node: "db", Kind: api.KindMember, Name: "sql", Addr: "10.0.0.9:5432"}) // another name
	c.set(row("a", "10.0.0.1:80"), row("b", "10.0.0.2:80"))
	check("another node", row("a", "10.0.0.1:80"), row("b", "10.0.0.2:80"))
	stop() // the node restarts
	message, err := bufio.NewReader(errOut).ReadString('\n')
	if err != nil || !strings.Contains(message, "retrying until the node responds") {
		t.Fatalf("%q, %v", message, err)
	}
	unexpected := make(chan string, 1)
	go func() {
		rest, _ := io.ReadAll(errOut)
		unexpected <- string(rest)
	}()
	c.set(row("b", "10.0.0.2:80"))
	listenAndServe(t, c, addr)
	check("a node less, after a restart", row("b", "10.0.0.2:80"))
	c.set()
	check("no endpoint", []api.Endpoint{}...)
	interrupt()
	if got, rest := <-code, <-unexpected; got != 0 || rest != "" {
		t.Errorf("exit code %d, %q", got, rest)
	}
}

func TestWatchSeparatesTablesByAnEmptyLine(t *testing.T) {
	c := &changingCluster{rows: []api.Endpoint{{Node: "a", Kind: api.KindNode, Name: "http", Addr: "10.0.0.1:80"}}}
	addr := serveCluster(t, c)
	ctx, interrupt := context.WithCancel(t.Context())
	out, in := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- cli.Run(ctx, strings.Fields("endpoints --watch --admin="+addr), nil, in, io.Discard)
	}()
	lines := bufio.NewScanner(out)
	for _, want := range []string{"NODE KIND NAME ADDRESS", "a node http 10.0.0.1:80", "", "NODE KIND NAME ADDRESS", "b node http 10.0.0.2:80"} {
		if !lines.Scan() || strings.Join(strings.Fields(lines.Text()), " ") != want {
			t.Fatalf("%q, want %q", lines.Text(), want)
		}
		if strings.HasPrefix(want, "a ") {
			c.set(api.Endpoint{Node: "b", Kind: api.KindNode, Name: "http", Addr: "10.0.0.2:80"})
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // the rest of the last list
	interrupt()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d", got)
	}
}
