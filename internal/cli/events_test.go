package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/admin"
	"shardway/admin/apitest"
	"shardway/event"
	"shardway/internal/cli"
)

// startNodeWithEvents starts the admin port of a node with events. It returns the ring and the
// address.
func startNodeWithEvents(t *testing.T) (*event.Ring, string) {
	t.Helper()
	r := event.NewRing(event.Options{Node: "a", RunID: 7, Stamp: func() event.Stamp { return event.Stamp{Boot: 1, Epoch: 17, Term: 3} }})
	r.Add(event.Event{Kind: event.NodeFailed, Node: "b\x1b[2J"})
	r.Add(event.Event{Kind: event.MapCommitted, Reason: "crashed", Change: &event.Change{
		Base: 12, Moved: 3, Gained: 2, Moves: []event.ShardMoves{{From: "b", To: "a", Shards: 2}, {To: "c", Shards: 1}}, Phases: []event.Phase{{Name: event.PhaseDrain, MS: 1.25}},
	}})
	r.Add(event.Event{Kind: event.ActionRequested, Action: &event.AdminAction{By: "token eve", From: "10.0.0.9:1", What: "drain c", Status: 200}})
	srv := httptest.NewServer(admin.New(admin.Options{API: apitest.SetOf(&cluster{}), Events: r}).Handler())
	t.Cleanup(srv.Close)
	return r, " --admin " + strings.TrimPrefix(srv.URL, "http://")
}

func TestEvents(t *testing.T) {
	_, at := startNodeWithEvents(t)
	code, out, errOut := run(t, "events"+at)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 3 || strings.Contains(out, "\x1b") {
		t.Fatalf("exit %d: %q %s", code, out, errOut)
	}
	for i, want := range []string{"node-failed       epoch 17 term 3  b?[2J", "(crashed)  moved 3 (here +2 -0)  b→a 2  orphaned→c 1  drain 1.2 ms", "drain c by token eve from 10.0.0.9:1: 200"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %q, want %q in it", lines[i], want)
		}
	}
	code, out, _ = run(t, "events --json --after 0000000000000007-2"+at)
	var e event.Event
	if err := json.Unmarshal([]byte(out), &e); code != 0 || err != nil || e.Kind != event.ActionRequested {
		t.Errorf("exit %d: %q, %v", code, out, err)
	}
	if code, _, errOut = run(t, "events --after x"+at); code != 1 || !strings.Contains(errOut, "is not the id of an event") {
		t.Errorf("a wrong id: exit %d, %s", code, errOut)
	}
}

// With --shards, the command prints which shards moved. The text has ranges, and JSON has lists.
func TestEventsWithShards(t *testing.T) {
	r, at := startNodeWithEvents(t)
	r.Add(event.Event{Kind: event.ShardsMoved, Change: &event.Change{Moved: 5}, Shards: []event.MovedShards{{From: "b", To: "a", Shards: []uint16{0, 1, 2, 7}}, {To: "c", Shards: []uint16{9}}}})
	r.Add(event.Event{Kind: event.JoinCompleted, Node: "a", Join: &event.Join{MS: 51, Steps: []event.Phase{{Name: event.StepLog, MS: 30.2}, {Name: event.StepMap, MS: 20.8}}}})
	code, out, errOut := run(t, "events --shards --after 0000000000000007-3"+at)
	for _, want := range []string{"moved 5 (here +0 -0)  b→a: 0-2,7  orphaned→c: 9", "a  in 51 ms  log 30 ms  map 21 ms"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d: %q %s, want %q", code, out, errOut, want)
		}
	}
	if _, out, _ = run(t, "events --json --shards --after 0000000000000007-3"+at); !strings.Contains(out, `"shards":[{"from":"b","to":"a","shards":[0,1,2,7]},{"to":"c","shards":[9]}]`) {
		t.Errorf("JSON: %s", out)
	}
	if _, out, _ = run(t, "events --after 0000000000000007-3"+at); strings.Contains(out, "0-2") {
		t.Errorf("without --shards: %s", out)
	}
}

// tail is an output that tests can wait for.
type tail struct {
	mu   sync.Mutex
	b    bytes.Buffer
	more chan struct{} // capacity 1
}

func (o *tail) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.more <- struct{}{}:
	default:
	}
	return o.b.Write(p)
}

// until waits until the output contains text.
func (o *tail) until(t *testing.T, text string) {
	t.Helper()
	giveUp := time.After(time.Minute)
	for {
		o.mu.Lock()
		all := o.b.String()
		o.mu.Unlock()
		if strings.Contains(all, text) {
			return
		}
		select {
		case <-o.more:
		case <-giveUp:
			t.Fatalf("no %q in %q", text, all)
		}
	}
}

func TestEventsAreFollowed(t *testing.T) {
	r, at := startNodeWithEvents(t)
	ctx, stop := context.WithCancel(t.Context())
	out, ended := &tail{more: make(chan struct{}, 1)}, make(chan int, 1)
	go func() { ended <- cli.Run(ctx, strings.Fields("events -f"+at), nil, out, out) }()
	out.until(t, "drain c")
	r.Add(event.Event{Kind: event.LeaderElected, Node: "newcomer"})
	out.until(t, "newcomer")
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("exit %d, want 0: whoever interrupts it wants that", code)
	}
}

func TestEventOfSocketsIsALine(t *testing.T) {
	r, at := startNodeWithEvents(t)
	r.Add(event.Event{Kind: event.WebSocketsMoved, Sockets: &event.Sockets{Shards: 3, Sockets: 120, Gaps: 2, Lost: 1, LongestMS: 412.6}})
	want := "websockets-moved  epoch 17 term 3  120 WebSockets of 3 shards: 2 with a gap, 1 lost, interrupted for up to 413 ms\n"
	if code, out, _ := run(t, "events --after 0000000000000007-3"+at); code != 0 || !strings.HasSuffix(out, want) {
		t.Errorf("exit %d: %q, want %q at its end", code, out, want)
	}
}
