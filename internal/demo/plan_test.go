package demo

import (
	"slices"
	"strings"
	"testing"

	"shardway/config"
)

func TestPlanTakesTheUsualPorts(t *testing.T) {
	l, err := planLayout(func(int) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	want := []nodePlan{
		{id: "n1", http: 8080, admin: 8081, gossip: 7946, peer: 7956, app: 9001},
		{id: "n2", http: 8082, admin: 8083, gossip: 7947, peer: 7957, app: 9002},
		{id: "n3", http: 8084, admin: 8085, gossip: 7948, peer: 7958, app: 9003},
	}
	if !slices.Equal(l.nodes, want) {
		t.Errorf("plan = %+v, want %+v", l.nodes, want)
	}
	// Beside a running demo, commands without --admin met a port of its second app.
	if asked := config.Default().Admin; asked != addr(l.nodes[0].admin) {
		t.Errorf("commands ask %s by themselves, and the first node's admin port is %d", asked, l.nodes[0].admin)
	}
}

func TestPlanGoesAroundTakenPorts(t *testing.T) {
	asked := map[int]int{}
	l, err := planLayout(func(port int) bool {
		asked[port]++
		return port != 8080 && (port < 8083 || port > 8300) && (port < 7946 || port > 7957)
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []nodePlan{
		{id: "n1", http: 8082, admin: 8081, gossip: 7958, peer: 7961, app: 9001},
		{id: "n2", http: 8303, admin: 8301, gossip: 7959, peer: 7962, app: 9002},
		{id: "n3", http: 8304, admin: 8302, gossip: 7960, peer: 7963, app: 9003},
	}
	if !slices.Equal(l.nodes, want) {
		t.Errorf("plan = %+v, want %+v", l.nodes, want)
	}
	for port, n := range asked {
		if n > 1 {
			t.Errorf("asked %d times about port %d", n, port)
		}
	}
}

func TestPlanStaysBelowTheSystemsOwnPorts(t *testing.T) {
	if _, err := planLayout(func(port int) bool { return port > lastPort }); err == nil || !strings.Contains(err.Error(), "no free port from 8081 to 32767") {
		t.Errorf("plan = %v, want that no port is free", err)
	}
	if _, err := planLayout(func(port int) bool { return port >= 32765 }); err == nil {
		t.Error("plan gave out ports twice, or above 32767")
	}
}

func TestArguments(t *testing.T) {
	l, err := planLayout(func(int) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	const want = "run --node n2 --data /d/n2 --upstream http://127.0.0.1:9002 --hooks /_shards --listen 127.0.0.1:8082 --admin 127.0.0.1:8083" +
		" --gossip 127.0.0.1:7947 --peer 127.0.0.1:7957 --bootstrap-expect 3 --key header:X-Shard-Key --key query:room --on-missing-key cookie --log-format console" +
		" --join 127.0.0.1:7946 --join 127.0.0.1:7948 --takeover immediate"
	if got := strings.Join(l.runArgs(1, "/d", []string{"--takeover", "immediate"}), " "); got != want {
		t.Errorf("runArgs =\n%s, want\n%s", got, want)
	}
	if got := strings.Join(l.appArgs(1, "/tmp/demo"), " "); got != "demo-app --listen 127.0.0.1:9002 --state /tmp/demo/state" {
		t.Errorf("appArgs = %s", got)
	}
}

func TestTakenPortIsNotFree(t *testing.T) {
	free := portFree(t.Context())
	l, err := planLayout(free)
	if err != nil {
		t.Fatal(err)
	}
	port := l.nodes[0].app
	ln := listenOn(t, port)
	if free(port) {
		t.Errorf("port %d is free though something listens", port)
	}
	_ = ln.Close()
	if !free(port) {
		t.Errorf("port %d is not free again", port)
	}
}

func TestPrefixerKeepsLinesWhole(t *testing.T) {
	var b strings.Builder
	p := &prefixer{writer: &b, prefix: "n1 | "}
	for _, part := range []string{"one\ntw", "o\n", "\n", "thr", "ee\nunfinished"} {
		if n, err := p.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	}
	if want := "n1 | one\nn1 | two\nn1 | \nn1 | three\n"; b.String() != want {
		t.Errorf("written = %q, want %q", b.String(), want)
	}
	b.Reset()
	_, _ = p.Write([]byte(strings.Repeat("x", maxLine+1)))
	if len(p.line) != 0 || b.Len() < maxLine {
		t.Errorf("a line without an end is kept: %d bytes", len(p.line))
	}
}
