package consensus_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"shardway/internal/simnet"
	"shardway/node/consensus"
	"shardway/peer"
)

// The term that a server states in a vote request or a vote is recorded before the server can forget it, because the term reveals an older
// image of its disk.
func TestTermsInVotesAreStated(t *testing.T) {
	var mu sync.Mutex
	told := map[string]map[string]uint64{} // by receiver, then by sender
	bubble(t, abc(), func(o *consensus.Options) {
		hears := map[string]uint64{}
		mu.Lock()
		told[o.ID] = hears
		mu.Unlock()
		o.OnTerm = func(server string, term uint64) {
			mu.Lock()
			defer mu.Unlock()
			hears[server] = max(hears[server], term)
		}
	}, func(g *group) {
		first := g.leader(g.all...)
		rest := without(g.all, first)
		if err := first.TransferTo(rest[0].id()); err != nil {
			g.t.Fatal(err)
		}
		l := g.leader(g.all...)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for _, s := range without(g.all, l) {
			if got := told[s.id()][l.id()]; got != l.Term() {
				g.t.Errorf("%s heard of term %d of the candidate, want %d", s.id(), got, l.Term())
			}
			if got := told[l.id()][s.id()]; got != l.Term() {
				g.t.Errorf("the candidate heard of term %d of %s, want %d", got, s.id(), l.Term())
			}
		}
	})
}

// identityPast is a peer.DiskRecords that has the identity of one process.
type identityPast struct{ nonce uint64 }

func (s identityPast) LocalRecord() peer.Record { return peer.Record{Nonce: s.nonce} }

func (identityPast) RecordOf(string, string) (uint64, peer.Record) { return 0, peer.Record{} }
func (identityPast) CheckHandshake(context.Context, peer.Handshake) (peer.Refusal, string) {
	return 0, ""
}

// The streams of a previous process end as soon as another process has its disk.
func TestStreamsOfAnEarlierProcessAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(simnet.Config{})
		defer n.Close()
		a, b := n.Host("a"), n.Host("b")
		at := func(h *simnet.Host, node string, nonce uint64) *peer.Port {
			return peer.New(peer.Options{
				Node: node, Disk: "x", Boot: 1, Cluster: func() string { return "c" }, Dial: h.Dial, DiskRecords: identityPast{nonce},
				Lookup: func(string) (string, bool) { return b.Addr(port), true },
			})
		}
		far := at(b, "b", 2)
		stream := consensus.NewStream("b/x", consensus.PeerDialer(far))
		far.Handle(peer.Raft, stream.Handle)
		ln, err := b.Listen(b.Addr(port))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = far.Serve(ctx, ln) }() // ends with ctx
		c, err := consensus.PeerDialer(at(a, "a", 1))(ctx, "b", "x")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func(c net.Conn) {
			defer close(ended)
			_, _ = io.Copy(io.Discard, c) // the test waits for the end of the stream
		}(c)
		over := func() bool {
			synctest.Wait()
			select {
			case <-ended:
				return true
			default:
				return false
			}
		}
		stream.CloseOtherProcesses("a/x", 1)
		stream.CloseOtherProcesses("c/x", 3)
		if over() {
			t.Fatal("the stream of the process that has the disk was closed")
		}
		stream.CloseOtherProcesses("a/x", 3)
		<-ended // otherwise the bubble deadlocks
		_ = stream.Close()
	})
}

// dialsOnce is a stream layer with one connection.
type dialsOnce struct {
	c    net.Conn
	done chan struct{}
}

func (d *dialsOnce) Accept() (net.Conn, error) { <-d.done; return nil, net.ErrClosed }
func (d *dialsOnce) Close() error              { close(d.done); return nil }
func (d *dialsOnce) Addr() net.Addr            { return &net.TCPAddr{} }

func (d *dialsOnce) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) { return d.c, nil }

// The sender of a message is the peer of the stream, not the one named in the message. Once, a node could state a term for the disk of
// another node, which then counted as an older image and stopped for good. It could also send heartbeats in the name of another node.
func TestSenderCannotImpersonateAnotherServer(t *testing.T) {
	terms := map[string]uint64{}
	var mu sync.Mutex
	bubble(t, []string{"a"}, func(o *consensus.Options) {
		o.OnTerm = func(server string, term uint64) {
			mu.Lock()
			defer mu.Unlock()
			terms[server] = term
		}
	}, func(g *group) {
		a := g.all[0]
		thief := peer.New(peer.Options{
			Node: "t", Disk: "y", Boot: 1, Cluster: func() string { return "c" }, Lookup: g.lookup, Dial: g.net.Host("t").Dial,
		})
		header := func(id string) raft.RPCHeader {
			return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: []byte(id)}
		}
		speak := func(send func(n *raft.NetworkTransport) error) error {
			c, err := consensus.PeerDialer(thief)(g.t.Context(), "a", a.dir.Disk())
			if err != nil {
				g.t.Fatal(err)
			}
			layer := &dialsOnce{c: c, done: make(chan struct{})}
			n := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: layer, Timeout: time.Second, MaxPool: 1, Logger: hclog.NewNullLogger()})
			defer func() { _ = n.Close() }()
			return send(n)
		}
		for _, id := range []string{"b/x", "a/" + a.dir.Disk(), ""} {
			vote := speak(func(n *raft.NetworkTransport) error {
				err := n.RequestVote("a", "a", &raft.RequestVoteRequest{RPCHeader: header(id), Term: 99}, &raft.RequestVoteResponse{})
				if n.RequestVote("a", "a", &raft.RequestVoteRequest{RPCHeader: header("t/y"), Term: 99}, &raft.RequestVoteResponse{}) == nil {
					g.t.Errorf("who spoke as %q was heard once more by the same stream", id)
				}
				return err
			})
			beat := speak(func(n *raft.NetworkTransport) error {
				return n.AppendEntries("a", "a", &raft.AppendEntriesRequest{RPCHeader: header(id), Term: 99}, &raft.AppendEntriesResponse{})
			})
			if vote == nil || beat == nil {
				g.t.Errorf("as %q: asked for a vote %v, and sent a heartbeat: %v, want both refused", id, vote, beat)
			}
		}
		if !a.IsLeader() {
			g.t.Error("the leader gave way to who spoke as another")
		}
		if err := speak(func(n *raft.NetworkTransport) error {
			return n.RequestVote("a", "a", &raft.RequestVoteRequest{RPCHeader: header("t/y"), Term: 99}, &raft.RequestVoteResponse{})
		}); err != nil {
			g.t.Errorf("as itself: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(terms) != 1 || terms["t/y"] != 99 {
			g.t.Errorf("stated: %v, want what the one who spoke said of itself", terms)
		}
	})
}
