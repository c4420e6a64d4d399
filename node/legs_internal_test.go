package node

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"

	"shardway/peer"
	"shardway/peer/mux"
)

// Sockets of another node go by trunks of their own: as many as there are leave the lanes of
// its requests to those.
func TestLegsTakeNoLanesOfRequests(t *testing.T) {
	hosting(t, func(h *host) {
		r := &router{requestStreams: newRequestStreams(dialing("a", h.far)), webSocketStreams: newWebSocketStreams(dialing("a", h.far))}
		defer r.requestStreams.outgoing.Close()
		defer r.webSocketStreams.outgoing.Close()
		for i := range 2 * mux.MaxStreams {
			if l := r.OpenWebSocketStream(h.ctx, "b"); l == nil {
				t.Fatalf("no lane for socket %d", i)
			}
		}
		r.OpenStream("b") // a trunk is dialed
		synctest.Wait()
		for i := range mux.MaxStreams {
			if r.OpenStream("b") == nil {
				t.Fatalf("no lane for request %d", i)
			}
		}
		if n, l := h.router.webSocketStreams.numSessions(), h.router.requestStreams.numSessions(); n != 1 || l != 1 {
			t.Errorf("%d trunks of sockets and %d of requests, want one of each", n, l)
		}
	})
}

// The sockets of all nodes are bounded as streams are, and one node may have them all.
func TestTheLegsOfOthersAreBounded(t *testing.T) {
	l := newWebSocketStreams(peer.New(peer.Options{Node: "b", Cluster: func() string { return "c" }}))
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

// A node that was told to renew its streams opens further legs by another trunk, and those that
// there are go on.
func TestLegsOutliveARenewal(t *testing.T) {
	hosting(t, func(h *host) {
		n := &Node{router: &router{requestStreams: newRequestStreams(dialing("a", h.far)), webSocketStreams: newWebSocketStreams(dialing("a", h.far))}, proxy: h.proxy}
		defer n.router.requestStreams.outgoing.Close()
		defer n.router.webSocketStreams.outgoing.Close()
		ctx, cancel := context.WithCancel(h.ctx)
		defer cancel()
		before, _ := n.router.OpenWebSocketStream(ctx, "b").(*mux.Stream)
		n.RenewPeers()
		synctest.Wait()
		if before == nil || !before.SessionDraining() || !before.Quiet() {
			t.Errorf("a leg of before broke, or its trunk takes more: %v", before)
		}
	})
}
