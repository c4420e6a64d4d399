package cli_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/internal/cli"
)

// announcer is an announce command in this process.
type announcer struct {
	log   output
	stop  context.CancelFunc
	ended chan int // receives the exit code
}

// announce starts the command announce.
func announce(t *testing.T, args ...string) *announcer {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	a := &announcer{stop: stop, ended: make(chan int, 1)}
	go func() { a.ended <- cli.Run(ctx, append([]string{"announce"}, args...), nil, io.Discard, &a.log) }()
	t.Cleanup(stop)
	return a
}

// finish stops the command and returns its exit code.
func (a *announcer) finish(t *testing.T) int {
	t.Helper()
	a.stop()
	select {
	case code := <-a.ended:
		return code
	case <-time.After(20 * time.Second):
		t.Fatalf("announce does not stop\n%s", a.log.String())
		return 0
	}
}

// members returns the endpoints of members that are not nodes, as node=name=addr.
func (n *node) members(t *testing.T) (found []string) {
	t.Helper()
	var list api.EndpointList
	if err := json.Unmarshal([]byte(n.get(t, "http://"+n.admin+"/v1/endpoints", http.StatusOK)), &list); err != nil {
		t.Fatal(err)
	}
	for _, endpoint := range list.Endpoints {
		if endpoint.Kind == api.KindMember {
			found = append(found, endpoint.Node+"="+endpoint.Name+"="+endpoint.Addr)
		}
	}
	return found
}

// untilMembers waits until the node shows these endpoints of members that are not nodes.
func (n *node) untilMembers(t *testing.T, want ...string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		got := n.members(t)
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("endpoints of members %v, want %v\n%s", got, want, n.log.String())
		}
	}
}

// A service that is announced under the ID of the only node is listed next to the node and takes nothing from it. It returns
// with the node, and disappears when the command ends.
func TestAnnouncedServiceIsListed(t *testing.T) {
	t.Parallel()
	n := start(t, app(t))
	n.get(t, "http://"+n.probes+"/readyz", http.StatusOK)
	gossip := strings.TrimPrefix(n.args[9], "--gossip=")
	a := announce(t, "--name=solo", "--endpoint=redis=10.0.0.9:6379", "--endpoint", "stats=10.0.0.9:80", "--join="+gossip, "--log-format=json")
	want := []string{"solo=redis=10.0.0.9:6379", "solo=stats=10.0.0.9:80"}
	n.untilMembers(t, want...)
	var nodes api.NodeList
	if err := json.Unmarshal([]byte(n.get(t, "http://"+n.admin+"/v1/nodes", http.StatusOK)), &nodes); err != nil {
		t.Fatal(err)
	}
	if len(nodes.Nodes) != 1 || nodes.Nodes[0].State != "active" || nodes.Nodes[0].Shards != 16 || nodes.Nodes[0].Endpoints["redis"] != "" {
		t.Errorf("nodes: %+v", nodes.Nodes)
	}
	n.refuseSecond(t, gossip, want)
	if code := n.finish(t); code != 0 {
		t.Fatalf("the node ended with %d\n%s", code, n.log.String())
	}
	n.launch(t)
	n.get(t, "http://"+n.probes+"/readyz", http.StatusOK)
	n.untilMembers(t, want...)
	if code := a.finish(t); code != 0 {
		t.Errorf("announce ended with %d", code)
	}
	n.untilMembers(t)
	for _, line := range []string{"announcement started", "service announced", "all nodes lost, joining again", "announcement ended"} {
		if !strings.Contains(a.log.String(), line) {
			t.Errorf("no line %q in\n%s", line, a.log.String())
		}
	}
	if code := n.finish(t); code != 0 {
		t.Errorf("the node ended with %d\n%s", code, n.log.String())
	}
}

// refuseSecond starts another process with the name of the service, which changes nothing, also when it ends.
func (n *node) refuseSecond(t *testing.T, gossip string, want []string) {
	t.Helper()
	second := announce(t, "--name=solo", "--endpoint=redis=10.6.6.6:6379", "--join="+gossip, "--log-format=json")
	for end := time.Now().Add(20 * time.Second); !strings.Contains(second.log.String(), "Names must be unique"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no conflict\n%s", second.log.String())
		}
	}
	second.stop()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got := n.members(t); !slices.Equal(got, want) {
			t.Fatalf("while the second process ends, the node shows %v", got)
		}
	}
	if code := second.finish(t); code != 0 || strings.Contains(second.log.String(), "service announced") {
		t.Errorf("the second process ended with %d\n%s", code, second.log.String())
	}
}

func TestFailedAnnouncementNamesTheRemedy(t *testing.T) {
	t.Parallel()
	const valid = "announce --name cache --endpoint redis=10.0.0.9:6379 --join 127.0.0.1:1 "
	long := strings.Repeat("h", 200)
	for line, want := range map[string]struct {
		code int
		text string
	}{
		"announce --join 127.0.0.1 --endpoint a=b:1":                                                  {2, "name (default): the service has no name; set it, such as --name cache-1"},
		valid + "--secret-file /no/such/file":                                                         {1, "--secret-file: "},
		valid + "--gossip 127.0.0.1:1 --gossip 192.0.2.1:7950 --insecure":                             {1, "192.0.2.1:7950"},
		valid + "--endpoint a=" + long + ":1 --endpoint b=" + long + ":1 --endpoint c=" + long + ":1": {1, `use fewer or shorter ones`},
	} {
		code, out, errOut := run(t, line)
		if code != want.code || out != "" || !strings.Contains(errOut, want.text) {
			t.Errorf("%s: exit %d\n%s%s", line, code, out, errOut)
		}
	}
}
