package consensus_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"shardway/node/consensus"
)

// After the installation of a snapshot, the library still has the log that contradicts it, until the restart of its instance drops that
// log. In the meantime, the server grants no vote and does not campaign. Once, it judged votes by the old log: a candidate with a log that was as
// old, without the entries that the snapshot has as committed, got the vote, and the server could itself campaign with it.
func TestNoVoteByALogThatIsAboutToBeDropped(t *testing.T) {
	var received atomic.Int64
	onSnapshot := func(direction string, size int64, _ time.Duration) {
		if direction == consensus.SnapshotReceived && size > 0 {
			received.Add(1)
		}
	}
	bubble(t, abc(), func(o *consensus.Options) { o.OnSnapshot = onSnapshot }, func(g *group) {
		l := g.leader(g.all...)
		other := without(g.all, l)[0].id()
		g.apply(l, "before")
		g.agree(1, g.all...)
		g.net.Isolate(l.host.Name())
		for range 10 {
			go func() { _ = l.Apply([]byte("never")) }()
		}
		time.Sleep(time.Minute)
		release := l.HoldLife()
		term, index := l.LastLog()
		if err := l.Install(other, l.Term()+5, index-3, term+1, make([]byte, 8)); err != nil {
			g.t.Fatal(err)
		}
		g.refuses(l, other, term, index)
		release()
		g.until("the log is dropped", func() bool {
			_, now := l.LastLog()
			return now < index
		})
		if n := received.Load(); n != 1 {
			g.t.Errorf("%d received snapshots reported, want 1", n)
		}
		next := l.Term() + 1
		resp, _ := l.Ask(other, func(h raft.RPCHeader) any {
			return &raft.RequestVoteRequest{RPCHeader: h, Term: next, LastLogIndex: index, LastLogTerm: term + 1, LeadershipTransfer: true}
		})
		if r, ok := resp.(*raft.RequestVoteResponse); !ok || !r.Granted {
			g.t.Errorf("vote by the new log: %+v, want it granted", resp)
		}
	})
}

// refuses checks that a server grants no vote by its old log, and does not campaign.
func (g *group) refuses(l *server, candidate string, term, index uint64) {
	g.t.Helper()
	next := l.Term() + 1
	resp, _ := l.Ask(candidate, func(h raft.RPCHeader) any {
		return &raft.RequestPreVoteRequest{RPCHeader: h, Term: next, LastLogIndex: index, LastLogTerm: term}
	})
	if r, ok := resp.(*raft.RequestPreVoteResponse); !ok || r.Granted {
		g.t.Errorf("pre-vote by a log of term %d: %+v, want it refused", term, resp)
	}
	resp, _ = l.Ask(candidate, func(h raft.RPCHeader) any {
		return &raft.RequestVoteRequest{RPCHeader: h, Term: next, LastLogIndex: index, LastLogTerm: term, LeadershipTransfer: true}
	})
	if r, ok := resp.(*raft.RequestVoteResponse); !ok || r.Granted {
		g.t.Errorf("vote by a log of term %d: %+v, want it refused", term, resp)
	}
	if _, err := l.Ask(candidate, func(h raft.RPCHeader) any { return &raft.TimeoutNowRequest{RPCHeader: h} }); err == nil {
		g.t.Error("it was told to stand for election, and does")
	}
}
