package node_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/node"
	"shardway/peer"
)

// startsThree starts three voters, and returns the two that do not lead.
func (w *world) startsThree() (one, other *process) {
	w.t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		w.start(name)
	}
	w.untilSettled("a", "b", "c")
	w.untilVoters(3)
	names := w.others(w.leader())
	return w.all[names[0]], w.all[names[1]]
}

// A greeting is believed only by the node that dialed it. A restarted voter must therefore be greeted back by the followers. They must
// learn soon of a change in what it reports of its disk, although idle voters send no greetings.
func TestFollowersKnowOfEachOtherWithoutDelay(t *testing.T) {
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.HoldGrace = time.Minute } // the map stays, so it causes no other messages
		one, other := w.startsThree()
		server := one.node.Server()
		for i := range share(5, 2) {
			time.Sleep(time.Minute + time.Duration(i)*2*time.Second)
			boot := other.node.Knows(server).Boot
			one.terminate()
			one.restart()
			w.within(2*time.Second, other.name+" knows of the new process of "+one.name, func() bool { return other.node.Knows(server).Boot > boot })
			w.untilSettled("a", "b", "c")
		}
		for i := range share(5, 2) {
			time.Sleep(time.Minute + time.Duration(i)*2*time.Second)
			verb := api.Drain
			if i%2 == 1 {
				verb = api.Uncordon
			}
			epoch := w.committed().Epoch()
			w.asks(w.leader(), api.Action{Verb: verb, Node: one.name})
			w.until("a new map", func() bool { return w.committed().Epoch() > epoch })
			w.within(4*time.Second, other.name+" knows that "+one.name+" has applied it", func() bool {
				return other.node.Knows(server).Applied == uint64(w.committed().Epoch())
			})
		}
	})
}

// Each greeting wakes two nodes, so idle voters send them rarely. A new process is greeted immediately, but not at any rate at which
// another process claims to be one.
func TestVotersGreetSeldomAtRest(t *testing.T) {
	bubble(t, func(w *world) {
		var of atomic.Pointer[[2]string] // the dialing node and its target
		var dials atomic.Int64
		w.tune = func(o *node.Options) {
			name, dial := o.Dir.Node(), o.PeerDial
			o.PeerDial = func(ctx context.Context, addr string) (net.Conn, error) {
				if counted := of.Load(); counted != nil && *counted == [2]string{name, addr} {
					dials.Add(1)
				}
				return dial(ctx, addr)
			}
		}
		one, other := w.startsThree()
		time.Sleep(time.Minute)
		of.Store(&[2]string{other.name, one.host.Addr(7947)})
		time.Sleep(time.Minute)
		if n := dials.Swap(0); n < 5 || n > 7 {
			w.t.Errorf("%s has dialled %s %d times in a minute, want 6", other.name, one.name, n)
		}
		stranger := w.plays(one, one.node.Boot()+1, fixedHistory{own: peer.Record{Nonce: 7, Term: one.node.Term(), Last: 1 << 40}})
		for range 50 {
			conn, err := stranger.Dial(w.t.Context(), other.name, peer.Control)
			if err != nil {
				w.t.Fatal(err)
			}
			_ = conn.Close()
		}
		w.within(time.Second, "it is greeted back", func() bool { return dials.Load() > 0 })
		time.Sleep(time.Second)
		if n := dials.Load(); n > 3 {
			w.t.Errorf("%s has dialled %s %d times, want one for each second", other.name, one.name, n)
		}
	})
}
