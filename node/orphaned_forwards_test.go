package node_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/internal/simnet"
	"shardway/shardmap"
)

// Once, all nodes were killed while a proposal was open that excluded one of them. Another node replayed its log, in which a shard had
// moved away from the excluded node. By the previous map it had just forwarded a POST for that shard, and aborted it when its log reached
// the proposal: 502, it may have been processed, although the other node was back and healthy.
func TestRequestsToNodeExcludedByOldProposalContinue(t *testing.T) {
	t.Parallel()
	const apart = 30 * time.Millisecond // one-way latency
	three(t, func(w *world) {
		w.untilVoters(3)
		base := w.committed()
		l, p := w.leader(), w.follower()
		gone := w.all[slices.DeleteFunc(w.others(l), func(n string) bool { return n == p.name })[0]]
		w.asks(l, api.Action{Verb: api.Pin, Shard: uint32(shardAsked(base, gone.name)), Node: l.name})
		w.until("a shard has moved", func() bool { return w.committed().Epoch() > base.Epoch() && w.settled("a", "b", "c") })
		p.log.close() // it acknowledges nothing
		gone.kill()
		w.until("a map without it is proposed", func() bool { return l.node.State().IsDropped(shardmap.NodeID(gone.name)) })
		if s := l.node.State(); !s.HasOpenProposal() || !s.Committed().IsMember(shardmap.NodeID(gone.name)) {
			w.t.Fatalf("the map of epoch %d is without it already", s.Committed().Epoch())
		}
		l.kill()
		p.kill()

		// After its restart, p uses the first map for a moment, and the other node has none yet.
		further := make(chan struct{})
		p.log.before = func() {
			if p.node.Known().Committed().Epoch() == base.Epoch() {
				<-further
			}
		}
		gone.log.close()
		l.restart()
		gone.restart()
		w.until(l.name+" leads again", func() bool { return l.node.Leads() })
		p.restart()
		ran := answeringApps(w)
		w.until(p.name+" goes by the first map, and is told of a newer one", func() bool {
			return p.node.State().Committed().Epoch() == base.Epoch() && p.node.Lacks()
		})
		w.net.SetLink(p.name, gone.name, simnet.Link{Latency: apart})
		answered := ask(w, p, gone.name, "/")
		time.Sleep(5 * apart) // after two round trips for the stream, the request is in flight
		if n := p.node.Forwarded(gone.name); n != 1 {
			w.t.Errorf("%d requests are under way to %s, want 1", n, gone.name)
		}
		close(further)
		w.until(p.name+" knows of the drop", func() bool { return p.node.State().IsDropped(shardmap.NodeID(gone.name)) })
		time.Sleep(apart / 2)
		select {
		case got := <-answered:
			w.t.Errorf("answered %v before its owner has said a word", got)
		default:
		}
		gone.log.open()
		if got := <-answered; got.status != http.StatusOK || ran.count("/") != 1 {
			w.t.Errorf("answered %v and run %d times, want 200 and once", got, ran.count("/"))
		}
		w.untilSettled("a", "b", "c")
	})
}

// shardAsked returns the shard of owner for which ask sends its request in this map.
func shardAsked(m *shardmap.Map, owner string) shardmap.Shard {
	for i := 0; ; i++ {
		if s := shardmap.ShardOf(fmt.Sprint("k", i), shards); m.Owner(s) == shardmap.NodeID(owner) {
			return s
		}
	}
}
