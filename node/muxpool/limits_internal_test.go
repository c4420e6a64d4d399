package muxpool

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/peer"
	"shardway/peer/mux"
)

// host is a node's peer port in a bubble, with its mux sessions and streams, and other nodes that dial it.
type host struct {
	requests, webSockets *Pool
	t                    *testing.T
	far                  *farPort
	ctx                  context.Context //nolint:containedctx // a host lives for one test
	all                  sync.WaitGroup
}

// drain reads a stream until its end, as the proxy reads requests.
func drain(_ context.Context, stream net.Conn, _ string) {
	_, _ = io.Copy(io.Discard, stream)
	_ = stream.Close()
}

// hosting runs f with a host that serves as a node does.
func hosting(t *testing.T, f func(h *host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := &host{t: t, far: &farPort{ends: make(chan net.Conn)}, ctx: ctx}
		p := peer.New(peer.Options{Node: "b", Cluster: func() string { return "c" }})
		h.requests, h.webSockets = NewForRequests(p), NewForWebSockets(p)
		p.Handle(peer.RequestSession, h.requests.Handler(zerolog.Nop(), drain))
		p.Handle(peer.WebSocketSession, h.webSockets.Handler(zerolog.Nop(), drain))
		p.Handle(peer.Forward, func(ctx context.Context, _ *peer.Conn) { <-ctx.Done() })
		h.all.Go(func() { _ = p.Serve(ctx, &listener{far: h.far, ctx: ctx}) }) // ends with ctx
		defer h.all.Wait()
		defer cancel()
		f(h)
	})
}

// dial makes another node dial a mux session, whose own budget allows any number of streams.
func (h *host) dial(from string) *mux.Session {
	h.t.Helper()
	t, err := h.tryDial(from)
	if err != nil {
		h.t.Fatal(err)
	}
	return t
}

// tryDial is like dial, but returns the error of a dial.
func (h *host) tryDial(from string) (*mux.Session, error) {
	c, err := dialing(from, h.far).Dial(h.ctx, "b", peer.RequestSession)
	if err != nil {
		return nil, err
	}
	t := mux.NewClient(c, mux.NewBudget(1<<20, nil))
	h.all.Go(func() { _ = t.Run() })
	h.t.Cleanup(func() { t.Fail(net.ErrClosed) })
	return t, nil
}

// open opens n streams, and returns those that were accepted.
func (h *host) open(t *mux.Session, n int) (taken []*mux.Stream) {
	h.t.Helper()
	var all []*mux.Stream
	for range n {
		l, err := t.OpenStream()
		if err != nil {
			h.t.Fatalf("Open = %v after %d", err, len(all))
		}
		all = append(all, l)
	}
	synctest.Wait()
	for _, l := range all {
		if !l.Unprocessed() {
			taken = append(taken, l)
		}
	}
	return taken
}

// The streams of a node are limited over all its mux sessions: each session leaves less for the next, whichever node dialed it. Other nodes
// have their own limit.
func TestSessionsOfANodeShareOneStreamLimit(t *testing.T) {
	hosting(t, func(h *host) {
		first, second := h.dial("a"), h.dial("a")
		const some = 100
		lanes := h.open(first, some)
		if n := len(lanes); n != some {
			t.Fatalf("%d of %d lanes are taken", n, some)
		}
		if n := len(h.open(second, mux.MaxStreams)); n != mux.MaxStreams-some {
			t.Errorf("%d lanes of a second trunk are taken beside %d of the first, want %d in all", n, some, mux.MaxStreams)
		}
		if n := len(h.open(h.dial("a"), 1)); n != 0 {
			t.Error("a lane of a third trunk is taken though the bound is reached")
		}
		if n := len(h.open(h.dial("c"), mux.MaxStreams)); n != mux.MaxStreams {
			t.Errorf("%d lanes of another node are taken, want %d", n, mux.MaxStreams)
		}
		for _, l := range lanes {
			_ = l.Close()
		}
		synctest.Wait()
		if n := len(h.open(h.dial("a"), mux.MaxStreams)); n != some {
			t.Errorf("%d lanes are taken once %d have ended", n, some)
		}
	})
}

// All nodes together have a limit, too, from however many addresses they connect.
func TestStreamsOfAllNodesAreLimited(t *testing.T) {
	l := NewForRequests(peer.New(peer.Options{Node: "b", Cluster: func() string { return "c" }}))
	opened := 0
	for i := range maxStreams/mux.MaxStreams + 2 {
		near, _ := net.Pipe()
		tr := mux.NewClient(near, l.acquireSession(peerOrigin{node: "a", origin: strconv.Itoa(i)}))
		for ; ; opened++ {
			if _, err := tr.OpenStream(); err != nil {
				break
			}
		}
	}
	if opened != maxStreams {
		t.Errorf("%d lanes are open, want %d", opened, maxStreams)
	}
}

// A mux session beyond the limit of a node is closed without a response. Plain peer streams of that node are still served, and so is a
// further session once another one has ended.
func TestATrunkTooManyIsNotServed(t *testing.T) {
	hosting(t, func(h *host) {
		word := func(t *mux.Session) error {
			ctx, cancel := context.WithTimeout(h.ctx, time.Minute)
			defer cancel()
			return t.AwaitPong(ctx)
		}
		var trunks []*mux.Session
		for range maxSessionsPerNode {
			trunks = append(trunks, h.dial("a"))
			if err := word(trunks[len(trunks)-1]); err != nil {
				t.Fatalf("Ask = %v of trunk %d", err, len(trunks))
			}
		}
		port := dialing("a", h.far)
		r := NewForRequests(port)
		defer r.Outgoing.Close()
		lane := func() bool {
			if r.Outgoing.OpenStream("b") == nil {
				synctest.Wait() // a mux session is dialed
			}
			return r.Outgoing.OpenStream("b") != nil
		}
		if lane() {
			t.Errorf("there is a lane by trunk %d", maxSessionsPerNode+1)
		}
		tooMany, err := h.tryDial("a") // fails if the node closes the session while the greeting is written
		if err == nil {
			err = word(tooMany)
		}
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Ask = %v of trunk %d, want that it has ended", err, maxSessionsPerNode+1)
		}
		c, err := port.Dial(h.ctx, "b", peer.Forward)
		if err != nil {
			t.Fatalf("no stream beside the trunks: %v", err)
		}
		_ = c.Close()
		for _, other := range trunks {
			if err := word(other); err != nil {
				t.Errorf("Ask = %v of a trunk that there was", err)
			}
		}
		trunks[0].Fail(net.ErrClosed)
		time.Sleep(2 * time.Second) // a mux session is not dialed more often
		if !lane() {
			t.Error("there is no lane though a trunk has ended")
		}
	})
}
