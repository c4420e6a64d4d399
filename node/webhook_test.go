package node_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"shardway/event"
	"shardway/node"
)

// hub is a receiver of the events of all nodes.
type hub struct {
	mu        sync.Mutex
	isDown    bool
	ids       map[string]int // number of times that each event was acknowledged, by source and id
	kinds     map[string]int
	lastSeq   map[string]uint64 // by source
	unordered int               // events that were not in the order of their numbers
}

func (h *hub) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	var events []struct {
		ID, Source, Type string
		Data             event.Event
	}
	if err := json.Unmarshal(body, &events); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	response := &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}
	if h.isDown {
		response.StatusCode = http.StatusBadGateway
		return response, nil
	}
	for _, e := range events {
		h.ids[e.Source+" "+e.ID]++
		h.kinds[e.Type]++
		if e.Data.Seq != h.lastSeq[e.Source]+1 {
			h.unordered++
		}
		h.lastSeq[e.Source] = e.Data.Seq
	}
	return response, nil
}

func (h *hub) setDown(isDown bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isDown = isDown
}

// The receiver of the webhook gets every event of every node once, also the last ones of a node that stops. While it fails,
// the nodes report that, and serve.
func TestWebhookGetsEveryEvent(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		h := &hub{ids: map[string]int{}, kinds: map[string]int{}, lastSeq: map[string]uint64{}}
		w.tune = func(o *node.Options) {
			o.Webhook, o.WebhookTransport = "https://user:hidden@hub.example/token", h
		}
		for _, id := range []string{"a", "b", "c"} {
			w.start(id)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		untilDelivered := func() {
			w.until("all events have arrived", func() bool {
				return !slices.ContainsFunc(w.running(), func(r *process) bool { return value(r.gathered(), "shardway_webhook_undelivered_events", "") > 0 })
			})
		}
		p := w.follower()
		h.setDown(true)
		failing := w.all[w.others(p)[0]]
		failing.node.Events().Add(event.Event{Kind: event.ActionRequested, Action: &event.AdminAction{What: "test"}})
		time.Sleep(50 * time.Second)
		w.untilFindingsAre(failing, "webhook-failing: the webhook https://hub.example/… does not acknowledge the events of node "+failing.name+" for ", "--webhook")
		h.setDown(false)
		w.untilFindingsAre(failing)
		if value(failing.gathered(), "shardway_webhook_requests_total", "failed") == 0 {
			t.Error("no failed requests in the metrics")
		}
		untilDelivered()
		p.terminate()
		w.untilSettled(w.others(p)...)
		untilDelivered()
		h.mu.Lock()
		defer h.mu.Unlock()
		for id, count := range h.ids {
			if count != 1 {
				t.Errorf("%s was acknowledged %d times", id, count)
			}
		}
		for _, r := range []*process{w.all["a"], w.all["b"], w.all["c"]} {
			if newest := r.node.Events().Newest(); h.lastSeq["shardway://node/"+r.name] != newest {
				t.Errorf("%d of %d events of %s have arrived", h.lastSeq["shardway://node/"+r.name], newest, r.name)
			}
		}
		for _, kind := range []string{"node-joined", "leader-elected", "map-committed", "shards-moved", "join-completed", "finding-raised", "node-left", "action"} {
			if h.kinds["shardway."+kind] == 0 {
				t.Errorf("no event %s: %v", kind, h.kinds)
			}
		}
		if h.unordered > 0 {
			t.Errorf("%d events out of order", h.unordered)
		}
	})
}
