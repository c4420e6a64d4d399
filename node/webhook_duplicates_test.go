package node_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/event"
	"shardway/node"
)

// duplicateWindow is the time for which docs/reference/webhooks.md lets a receiver remember the events about nodes.
const duplicateWindow = 30 * time.Second

// nodeEventReceiver receives the events of all nodes, and ignores repeated events about nodes by the rule of
// docs/reference/webhooks.md.
type nodeEventReceiver struct {
	mu        sync.Mutex
	isJoining map[string]bool      // sources whose process has started and has not sent join-completed yet
	lastAt    map[string]time.Time // arrival of the last event, by type and subject
	// bySource contains the types and subjects of the events of each node that the rule does not ignore at once, and accepted
	// those that are not repeated.
	bySource map[string][]string
	accepted []string
}

func (r *nodeEventReceiver) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	var events []struct {
		Source, Type, Subject string
		Data                  event.Event
	}
	if err := json.Unmarshal(body, &events); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		if e.Data.Seq == 1 {
			r.isJoining[e.Source] = true
		}
		name := strings.TrimPrefix(e.Type, "shardway.") + " " + e.Subject
		switch {
		case e.Data.Kind == event.JoinCompleted:
			r.isJoining[e.Source] = false
		case strings.HasPrefix(name, "node-") && !r.isJoining[e.Source]:
			r.bySource[e.Source] = append(r.bySource[e.Source], name)
			if last, isKnown := r.lastAt[name]; !isKnown || time.Since(last) > duplicateWindow {
				r.accepted = append(r.accepted, name)
			}
			r.lastAt[name] = time.Now()
		}
	}
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
}

// take returns the events of each node and the accepted events since the last call, sorted.
func (r *nodeEventReceiver) take() (bySource map[string][]string, accepted []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bySource, accepted = r.bySource, r.accepted
	r.bySource, r.accepted = map[string][]string{}, nil
	for _, events := range bySource {
		slices.Sort(events)
	}
	slices.Sort(accepted)
	return bySource, accepted
}

// Events about nodes have no identity that all nodes share. All nodes that were up before a change send one event of it with
// the same type and subject, so a receiver that follows the rule of the documentation accepts each of them once.
func TestReceiverIgnoresRepeatedEventsAboutNodes(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		r := &nodeEventReceiver{isJoining: map[string]bool{}, lastAt: map[string]time.Time{}, bySource: map[string][]string{}}
		w.tune = func(o *node.Options) { o.Webhook, o.WebhookTransport = "https://hub.example", r }
		for _, id := range []string{"a", "b", "c"} {
			w.start(id)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		time.Sleep(duplicateWindow + time.Second)
		r.take()
		for _, step := range []struct {
			change func()
			want   []string
		}{
			{func() { w.start("d"); w.untilSettled("a", "b", "c", "d") }, []string{"node-joined d"}},
			{func() { w.asks(w.all["a"], api.Action{Verb: api.Drain, Node: "c"}); w.untilSettled("a", "b", "d") }, []string{"node-drained c"}},
			{func() {
				w.asks(w.all["a"], api.Action{Verb: api.Uncordon, Node: "c"})
				w.untilSettled("a", "b", "c", "d")
			}, nil},
			{func() { w.all["d"].kill(); w.untilSettled("a", "b", "c") }, []string{"node-dropped d", "node-failed d"}},
			{func() { w.all["d"].restart(); w.untilSettled("a", "b", "c", "d") }, []string{"node-rejoined d"}},
			{func() { w.all["d"].terminate(); w.untilSettled("a", "b", "c") }, []string{"node-left d"}},
			{func() {}, nil},
		} {
			step.change()
			time.Sleep(duplicateWindow + time.Second) // a later repetition shows in the next step
			bySource, accepted := r.take()
			t.Logf("accepted %q of %q", accepted, bySource)
			for _, name := range step.want {
				if !slices.Contains(accepted, name) {
					t.Errorf("accepted %q, want %q among them", accepted, name)
				}
			}
			if unique := slices.Compact(slices.Clone(accepted)); len(unique) != len(accepted) {
				t.Errorf("accepted twice: %q", accepted)
			}
			isFromLeader := func(name string) bool { return strings.HasPrefix(name, "node-dropped ") }
			all := slices.DeleteFunc(accepted, isFromLeader)
			for _, id := range []string{"a", "b", "c"} {
				if got := slices.DeleteFunc(bySource["shardway://node/"+id], isFromLeader); !slices.Equal(got, all) {
					t.Errorf("%s sent %q, want %q", id, got, all)
				}
			}
		}
	})
}
