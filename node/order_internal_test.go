package node

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/ack/leader"
	"shardway/internal/clock"
	"shardway/node/cluster"
	"shardway/node/crashdetect"
	"shardway/node/eventlog"
	"shardway/node/leaderloop"
	"shardway/node/metrics"
	"shardway/node/router"
	"shardway/peer"
	"shardway/proxy"
	"shardway/queue"
	"shardway/shardmap"
)

// A heartbeat states that no newer term had begun here when the answer that it echoes was sent. It must read the echo before the term: an
// answer that arrives between the two may have been sent after this node voted for another leader.
func TestHeartbeatReadsItsEchoBeforeTheTerm(t *testing.T) {
	clock := new(clock.Manual)
	clock.Advance(time.Hour)
	state := ack.NewState()
	a := &agent{
		self: "a", clock: clock, log: zerolog.Nop(), metrics: metrics.New(), changes: new(eventlog.MapChangeRecorder), router: router.New("a", 4, clock, nil),
		newestState: func() *ack.State { return state }, appChecked: func() bool { return true }, appHealthy: func() bool { return true }, appHealth: func() ack.AppHealth { return ack.AppHealth{} },
	}
	a.proxy = proxy.New(proxy.Options{Cluster: a.router, Queue: queue.New(queue.Options{})})
	term, sent, late := uint64(4), ack.Heartbeat{}, false
	a.protocol = ackagent.New(ackagent.Options{
		Node: "a", Server: "a/d", Boot: 1, Pace: ack.DefaultPace(), Timing: ack.DefaultTiming(), Gate: a,
		RaftTerm: func() uint64 {
			if late {
				late = false
				a.handleAnswer(a.BeginTurn(), ack.Answer{Term: 4, Number: 8, Boot: 1, HeartbeatNumber: 1})
			}
			return term
		},
		SendHeartbeat: func(hb ack.Heartbeat) { sent = hb },
	}, clock.Precise())
	a.protocol.HeartbeatNow()
	a.poll(a.BeginTurn())
	a.handleAnswer(a.BeginTurn(), ack.Answer{Term: 4, Number: 7, Boot: 1, HeartbeatNumber: 1})
	late = true
	a.protocol.HeartbeatNow()
	a.poll(a.BeginTurn())
	if sent.Echo != (ack.Echo{Term: 4, Number: 7}) || sent.Term != 4 {
		t.Errorf("echo %+v in term %d; the answer that came while the term was read must not be echoed yet", sent.Echo, sent.Term)
	}
	term = 5 // it has voted for another leader
	a.protocol.HeartbeatNow()
	a.poll(a.BeginTurn())
	if sent.Term != 5 {
		t.Errorf("the heartbeat names term %d, Raft is in 5", sent.Term)
	}
}

// raftOf is a Raft with a fixed term and one voter.
type raftOf struct{ term uint64 }

func (r raftOf) Term() uint64   { return r.term }
func (raftOf) Voters() []string { return []string{"a/d"} }

func (raftOf) Nonvoters() []string { return nil }

// A redial that found no listener before the election of this node says nothing about a process that started later, with a lease of the
// previous leader. It must be repeated, and only then counts.
func TestRedialBegunBeforeTheElectionIsNoEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{options: Options{Clock: clock.Virtual()}}
		var dialled []time.Duration
		n.port = peer.New(peer.Options{
			Node: "a", Disk: "d", Boot: 1, Cluster: func() string { return "c" }, Log: zerolog.Nop(),
			Lookup: func(string) (string, bool) { return "b:1", true },
			Dial: func(context.Context, string) (net.Conn, error) {
				dialled = append(dialled, n.options.Clock.Precise())
				time.Sleep(50 * time.Millisecond)
				return nil, syscall.ECONNREFUSED
			},
		})
		n.leaderInbox = &leaderInbox{leadership: &n.leaderRunner.leadership}
		n.crashDetector = crashdetect.NewDetector(n.port, n.options.Clock, n.onDialRefused)
		n.crashDetector.Start(t.Context())
		time.Sleep(time.Second)
		n.crashDetector.ConnClosed("b", crashdetect.Process{Boot: 1, Nonce: 9})
		time.Sleep(20 * time.Millisecond) // during the dial
		turn := leader.NewDriver(leader.DriverOptions{
			Leader: leader.Options{Server: "a/d", Term: 1, Pace: ack.DefaultPace(), Timing: ack.DefaultTiming()},
			Raft:   raftOf{1}, Clock: n.options.Clock.Precise, NewestState: ack.NewState,
		})
		elected := n.options.Clock.Precise()
		l, messages, end := leaderloop.NewWithoutLoop(leaderloop.Options{Self: "a", Server: "a/d", Clock: n.options.Clock, View: cluster.NewView("a", "a/d", ack.DefaultTiming(), ack.NewState)}, 1, turn.StartedAt())
		n.leaderRunner.leadership.Store(l)
		counts := false
		for wait := time.After(5 * time.Second); !counts; {
			select {
			case m := <-messages:
				turn.Step(m)
			case <-wait:
				t.Fatalf("dialled at %v, elected at %v: no evidence", dialled, elected)
			}
			v, _ := leaderloop.FindMember(turn.View(), "b")
			counts = v.Crashed
		}
		if last := dialled[len(dialled)-1]; last < elected {
			t.Errorf("evidence of a dial that began %v before the election", elected-last)
		}
		end()
		n.crashDetector.Wait()
	})
}

// ReceiveAsLeader returns a function that passes a node's next heartbeat to a leader loop of this node's current term, also after that
// term, and returns the time for which the node may then serve. The loop is a second one on the same Raft: it starts with the heartbeats
// that the real one has received, and its answers are discarded.
func (n *Node) ReceiveAsLeader(ctx context.Context, node shardmap.NodeID) func() time.Duration {
	term, _ := n.raft.Leadership()
	views, _ := n.leaderRunner.leadership.Load().View(ctx)
	turn := leader.NewDriver(leader.DriverOptions{
		Leader: leader.Options{Server: n.serverID, Term: term, Pace: n.options.Pace, Timing: n.options.Timing, BootstrapExpect: n.options.BootstrapExpect},
		Raft:   n.raft, Clock: n.options.Clock.Precise, NewestState: n.fsm.state.Load, KeyConfig: n.loadedKeys.get,
	})
	number, echoes := uint64(0), map[shardmap.NodeID]ack.Echo{}
	hear := func(id shardmap.NodeID) (serve time.Duration) {
		v, _ := leaderloop.FindMember(views, string(id))
		number++
		hb := v.Heartbeat
		hb.Number += number
		if e, ok := echoes[id]; ok {
			hb.Echo = e
		}
		for _, e := range turn.Step(leader.HeartbeatReceived{Heartbeat: hb, From: v.From}) {
			if r, ok := e.(leader.Reply); ok {
				serve, echoes[id] = r.ServeFor, ack.Echo{Term: r.Term, Number: r.Number}
			}
		}
		return serve
	}
	turn.Step(leader.BarrierApplied{})
	for range 2 { // the second heartbeats confirm the answers to the first ones
		for _, v := range views {
			time.Sleep(time.Millisecond)
			hear(v.Node)
		}
	}
	return func() time.Duration { return hear(node) }
}
