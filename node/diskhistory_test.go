package node_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"shardway/ack"
	"shardway/peer"
	"shardway/shardmap"
)

// fixedHistory is what a simulated process reports of its own disk and of other disks.
type fixedHistory struct {
	own   peer.Record
	boot  uint64
	known peer.Record
}

func (s fixedHistory) LocalRecord() peer.Record                      { return s.own }
func (s fixedHistory) RecordOf(string, string) (uint64, peer.Record) { return s.boot, s.known }
func (fixedHistory) CheckHandshake(context.Context, peer.Handshake) (peer.Refusal, string) {
	return 0, ""
}

// plays returns a peer port that acts as the killed process p.
func (w *world) plays(p *process, boot uint64, s fixedHistory) *peer.Port {
	w.t.Helper()
	cluster := w.leader().node.State().ClusterID()
	_, id, _ := strings.Cut(p.node.Server(), "/")
	return peer.New(peer.Options{
		Node: p.name, Disk: id, Boot: boot, DiskRecords: s, Cluster: func() string { return cluster }, Dial: w.net.Host(fmt.Sprint(p.name, time.Now().UnixNano())).Dial,
		Lookup: func(node string) (string, bool) { return w.all[node].host.Addr(7947), true },
	})
}

// A node compares what a dialing node knows of its disk with its own records: b, whose disk was put back to an older image, learns that
// from c and takes part in nothing. It is not enough that c refuses the streams of b, because c may be the node that dials and requests a
// vote.
func TestNodeBelievesWhatADiallerKnowsOfIt(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		rest := w.others(w.leader())
		b, c := w.all[rest[0]], w.all[rest[1]]
		c.kill()
		_, id, _ := strings.Cut(b.node.Server(), "/")
		tell := func(known peer.Record) error {
			conn, err := w.plays(c, 9, fixedHistory{known: known}).DialServer(w.t.Context(), b.name, id, peer.Raft)
			if err == nil {
				_ = conn.Close()
			}
			return err
		}
		if err := tell(peer.Record{Nonce: 1, Applied: 1}); err != nil {
			w.t.Fatalf("told what b has: %v", err)
		}
		b.stale = true
		if err := tell(peer.Record{Nonce: 1, Applied: 1 << 40}); err == nil {
			w.t.Error("b speaks with who knows that its disk has gone back")
		}
		w.untilStale(b, "its log ends at")
	})
}

// A leader that has received no heartbeat from c itself uses what it knows of the disk of c from earlier. It refuses a heartbeat of an
// older image, and does not pass it to the machine of package ack, which has no memory of that disk.
func TestHeartbeatsAreJudgedByWhatIsKnown(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		c := w.follower()
		c.kill()
		c.restart() // its boot is 2
		w.untilSettled("a", "b", "c")
		time.Sleep(10 * time.Second) // all nodes have exchanged greetings
		c.kill()
		was := w.leader()
		if err := was.node.API().Do(w.t.Context(), stepDown); err != nil {
			w.t.Fatal(err)
		}
		w.until("another leads", func() bool { l := w.leader(); return l != nil && l != was })
		l := w.leader()
		for _, c := range []struct {
			name       string
			boot, term uint64
			refused    bool
		}{
			{name: "of an older boot", boot: 1, term: l.node.Term(), refused: true}, // first, because the machine remembers what it receives here
			{name: "of a term gone by", boot: 1, term: l.node.Term() - 1},           // is not counted at all
			{name: "of the boot that is", boot: 9, term: l.node.Term()},
		} {
			if a, answered := w.beat(l, c.boot, c.term); answered != (c.term == l.node.Term()) || (a.Refusal == ack.RefusedRollback) != c.refused {
				w.t.Errorf("%s: answered %v, %+v, want a refusal: %v", c.name, answered, a, c.refused)
			}
		}
	})
}

// beat sends the leader l a heartbeat of the one node that does not run, and returns the answer.
func (w *world) beat(l *process, boot, term uint64) (a ack.Answer, answered bool) {
	w.t.Helper()
	var dead *process
	for _, n := range w.names {
		if w.all[n].ended() {
			dead = w.all[n]
		}
	}
	conn, err := w.plays(dead, boot, fixedHistory{}).Dial(w.t.Context(), l.name, peer.Heartbeat)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	hb := ack.Heartbeat{Node: shardmap.NodeID(dead.name), Server: dead.node.Server(), Boot: boot, Nonce: 1, Number: 1, Term: term, Weight: 1}
	b, err := hb.MarshalBinary()
	if err != nil {
		w.t.Fatal(err)
	}
	if err = peer.WriteFrame(conn, b); err != nil {
		w.t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	if b, err = peer.ReadFrame(conn, nil, ack.MaxMessage); err != nil {
		return a, false
	}
	if err := a.UnmarshalBinary(b); err != nil {
		w.t.Fatal(err)
	}
	return a, true
}

// A candidate may be killed, and its disk put back, right after it has requested a vote. The voter that it asked records its term
// immediately, not with the next greeting.
func TestTermOfACandidateIsKnownAtOnce(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		rest := w.others(w.leader())
		b, c := w.all[rest[0]], w.all[rest[1]]
		c.kill()
		server, term := c.node.Server(), b.node.Term()+5
		_, id, _ := strings.Cut(b.node.Server(), "/")
		conn, err := w.plays(c, 9, fixedHistory{own: peer.Record{Nonce: 7, Term: term - 5, Last: 1 << 40}}).DialServer(w.t.Context(), b.name, id, peer.Raft)
		if err != nil {
			w.t.Fatal(err)
		}
		if k := b.node.Knows(server); k.Nonce != 7 || k.Term != term-5 {
			w.t.Errorf("%s knows %+v of the candidate, want what it said when it dialled", b.name, k)
		}
		layer := &oneWay{conn: conn, closed: make(chan struct{})}
		trans := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: layer, MaxPool: 1, Timeout: time.Second, Logger: hclog.NewNullLogger()})
		defer func() { _ = trans.Close() }()
		head := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(server), Addr: []byte(server)}
		if err := trans.RequestVote("b", "b", &raft.RequestVoteRequest{RPCHeader: head, Term: term}, &raft.RequestVoteResponse{}); err != nil {
			w.t.Fatal(err)
		}
		if k := b.node.Knows(server); k.Term != term {
			w.t.Errorf("%s knows %+v of the candidate, which was in term %d", b.name, k, term)
		}
	})
}

// oneWay is a stream layer that dials a single connection.
type oneWay struct {
	conn   net.Conn
	closed chan struct{}
}

func (o *oneWay) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) { return o.conn, nil }
func (o *oneWay) Addr() net.Addr                                           { return &net.TCPAddr{} }
func (o *oneWay) Close() error                                             { close(o.closed); return nil }

func (o *oneWay) Accept() (net.Conn, error) {
	<-o.closed
	return nil, net.ErrClosed
}
