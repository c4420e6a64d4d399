package node

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"shardway/diagnosis"
	"shardway/endpoints"
	"shardway/internal/logsafe"
	"shardway/node/control"
	"shardway/node/gossip"
)

const (
	// checkupTimeout is how long the nodes have to report, reachTimeout how long a port has
	// to take a connection, and maxUnreached how many ports a report names.
	checkupTimeout = 5 * time.Second
	reachTimeout   = time.Second
	maxUnreached   = 256
)

// examination keeps the last checkup of a kind: each asks every node, and each of those,
// with reach, tries every port of all others.
type examination struct {
	place chan struct{} // cap 1: held while the nodes are asked; the next ones wait for the same answer
	asked time.Time     // when they were last, answered or not
	last  *diagnosis.Checkup
}

func newExamination() examination { return examination{place: make(chan struct{}, 1)} }

// Checkup asks all nodes that are there for their reports, at most once in control.CacheTime for
// all who want to know the same, however they come and go.
func (n *Node) Checkup(ctx context.Context, reach bool) diagnosis.Checkup {
	x := &n.examined[0]
	if reach {
		x = &n.examined[1]
	}
	none := diagnosis.Checkup{From: string(n.self)}
	select {
	case x.place <- struct{}{}:
		defer func() { <-x.place }()
	case <-ctx.Done():
		return none
	}
	rest := time.Until(x.asked.Add(control.CacheTime)) // of the first one far in the past
	if x.last == nil {
		// Who asked last has left meanwhile.
		select {
		case <-time.After(rest):
			rest = 0
		case <-ctx.Done():
			return none
		}
	}
	if rest <= 0 {
		c := n.checkup(ctx, reach)
		x.asked, x.last = time.Now(), &c
		if ctx.Err() != nil {
			x.last = nil // it was broken off
			return c
		}
	}
	c := *x.last
	c.Reports, c.Unresponsive = slices.Clone(c.Reports), slices.Clone(c.Unresponsive) // each has its own
	return c
}

func (n *Node) checkup(ctx context.Context, reach bool) diagnosis.Checkup {
	ctx, cancel := context.WithTimeout(ctx, checkupTimeout)
	defer cancel()
	c := diagnosis.Checkup{From: string(n.self), AskedNS: int64(n.o.Clock.Precise())}
	var own diagnosis.Report
	var wg sync.WaitGroup
	wg.Go(func() { own = n.report(ctx, reach) })
	told, silent := control.Broadcast(ctx, n.client, n.aliveNodes(), control.Request{Kind: control.Report, Firm: reach}, diagnosis.Report{})
	wg.Wait()
	c.AnsweredNS, c.Unresponsive = int64(n.o.Clock.Precise()), silent
	told[string(n.self)] = own
	for id, r := range told {
		r.Node = id
		c.Reports = append(c.Reports, r)
	}
	slices.SortFunc(c.Reports, func(a, b diagnosis.Report) int { return cmp.Compare(a.Node, b.Node) })
	return c
}

// report is what this node says of itself, and which ports of others it does not reach.
func (n *Node) report(ctx context.Context, reach bool) diagnosis.Report {
	s := n.router.state.Load()
	r := diagnosis.Report{
		Node: string(n.self), Boot: n.o.Dir.Boot(), Version: n.o.Version, State: n.state(), Leader: n.leader(), Term: n.raft.Term(),
		Epoch: uint64(s.Committed().Epoch()), Flags: describe(n.o.Timing), ClockNS: int64(n.o.Clock.Precise()), Findings: n.Findings(), Settings: n.ownSettings(),
	}
	if known := n.fsm.state.Load(); known.Bootstrapped() {
		r.Timing = describe(known.Timing())
	}
	if reach {
		r.Unreached = n.unreached(ctx)
		r.ClockNS = int64(n.o.Clock.Precise())
	}
	return r
}

// unreached tries the ports of all other nodes that are there.
func (n *Node) unreached(ctx context.Context) (out []diagnosis.Reach) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	places := make(chan struct{}, control.MaxParallel)
	for _, p := range n.portsOfOthers() {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if err := n.tries(ctx, p.Addr); err != nil {
				p.Why = logsafe.OneLine(plain(err))
				mu.Lock()
				defer mu.Unlock()
				out = append(out, p)
			}
		})
	}
	wg.Wait()
	slices.SortFunc(out, func(a, b diagnosis.Reach) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Port, b.Port))
	})
	return out[:min(len(out), maxUnreached)]
}

// portsOfOthers lists what the other nodes that are there announce, and where they gossip.
func (n *Node) portsOfOthers() (all []diagnosis.Reach) {
	for _, m := range n.gossip.Members() {
		if !m.Node || m.ID == string(n.self) || m.Status != gossip.Alive {
			continue
		}
		all = append(all, diagnosis.Reach{Node: m.ID, Port: "gossip", Addr: m.Addr.String()})
		for _, name := range []string{endpoints.Peer, endpoints.HTTP, "admin"} {
			if addr := m.Tags.Endpoints[name]; addr != "" {
				all = append(all, diagnosis.Reach{Node: m.ID, Port: name, Addr: addr})
			}
		}
	}
	return all
}

// tries opens a connection and hangs up.
func (n *Node) tries(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	dial := n.o.PeerDial
	if dial == nil {
		var d net.Dialer
		dial = func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }
	}
	c, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	return c.Close()
}

// plain is an error of a connection without the address that is told beside it.
func plain(err error) string {
	if op, ok := err.(*net.OpError); ok && op.Err != nil { //nolint:errorlint // what is wrapped says more
		if op.Timeout() {
			return "no answer within " + strconv.Itoa(int(reachTimeout/time.Second)) + " s"
		}
		return op.Err.Error()
	}
	return err.Error()
}
