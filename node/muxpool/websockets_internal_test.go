package muxpool

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"

	"shardway/peer"
	"shardway/peer/mux"
)

// The WebSockets of another node have their own mux sessions. Whatever their number, they use no streams of its requests.
func TestWebSocketStreamsDoNotUseRequestStreams(t *testing.T) {
	hosting(t, func(h *host) {
		requests, webSockets := NewForRequests(dialing("a", h.far)), NewForWebSockets(dialing("a", h.far))
		defer requests.Outgoing.Close()
		defer webSockets.Outgoing.Close()
		for i := range 2 * mux.MaxStreams {
			if l := webSockets.Outgoing.OpenStreamWait(h.ctx, "b"); l == nil {
				t.Fatalf("no lane for socket %d", i)
			}
		}
		requests.Outgoing.OpenStream("b") // a mux session is dialed
		synctest.Wait()
		for i := range mux.MaxStreams {
			if requests.Outgoing.OpenStream("b") == nil {
				t.Fatalf("no lane for request %d", i)
			}
		}
		if n, l := h.webSockets.Sessions(), h.requests.Sessions(); n != 1 || l != 1 {
			t.Errorf("%d trunks of sockets and %d of requests, want one of each", n, l)
		}
	})
}

// The WebSockets of all nodes are limited as streams are, and a single node may use the whole limit.
func TestWebSocketStreamsOfOtherNodesAreLimited(t *testing.T) {
	l := NewForWebSockets(peer.New(peer.Options{Node: "b", Cluster: func() string { return "c" }}))
	one := l.acquireSession(peerOrigin{node: "a", origin: "1"})
	other := l.acquireSession(peerOrigin{node: "c", origin: "2"})
	t1 := mux.NewClient(nil, one)
	for i := range maxStreams - 1 {
		if _, err := t1.OpenStream(); err != nil {
			t.Fatalf("%v after %d", err, i)
		}
	}
	t2 := mux.NewClient(nil, other)
	if _, err := t2.OpenStream(); err != nil {
		t.Errorf("%v within the bound", err)
	}
	if _, err := t2.OpenStream(); err == nil {
		t.Error("one more than there may be")
	}
	for i := range maxWebSocketSessionsPerNode - 1 {
		if l.acquireSession(peerOrigin{node: "a", origin: "1"}) == nil {
			t.Errorf("a node has no trunk %s", strconv.Itoa(i+2))
		}
	}
	if l.acquireSession(peerOrigin{node: "a", origin: "1"}) != nil {
		t.Error("a node has one trunk too many")
	}
}

// A node that renews its streams opens further upstream connections of WebSockets on another mux session, and the existing ones continue.
func TestWebSocketStreamsSurviveRenew(t *testing.T) {
	hosting(t, func(h *host) {
		webSockets := NewForWebSockets(dialing("a", h.far))
		defer webSockets.Outgoing.Close()
		ctx, cancel := context.WithCancel(h.ctx)
		defer cancel()
		before := webSockets.Outgoing.OpenStreamWait(ctx, "b")
		webSockets.Outgoing.Renew()
		synctest.Wait()
		if before == nil || !before.SessionDraining() || !before.WouldBlock() {
			t.Errorf("a leg of before broke, or its trunk takes more: %v", before)
		}
	})
}
