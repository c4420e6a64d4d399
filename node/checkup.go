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
	"shardway/node/leaderloop"
)

const (
	// checkupTimeout bounds the collection of the reports of all nodes. reachTimeout bounds one attempt to
	// connect to a port. maxUnreached is the largest number of ports in a report.
	checkupTimeout = 5 * time.Second
	reachTimeout   = time.Second
	maxUnreached   = 256
)

// examination caches the last checkup of a kind, because a checkup is expensive: it asks every node, and
// with reach, each of them connects to every port of all other nodes. place protects the other fields.
type examination struct {
	place chan struct{}      // cap 1, used as a lock; a caller that waits for it receives the cached result
	asked time.Time          // time of the last checkup, complete or not
	last  *diagnosis.Checkup // last complete checkup; nil means none
}

// newExamination returns an examination without a result.
func newExamination() examination { return examination{place: make(chan struct{}, 1)} }

// Checkup asks all alive nodes for their reports, at most once in control.CacheTime. Callers within that
// time receive the same result. With reach, the reports also contain the ports that each node cannot
// reach. If ctx ends first, the result may be incomplete or empty.
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
	rest := time.Until(x.asked.Add(control.CacheTime)) // negative before the first checkup
	if x.last == nil {
		// The caller of the last checkup has cancelled it. Wait, so that cancelled callers do not cause
		// more checkups than one in control.CacheTime.
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
			x.last = nil // the checkup was cancelled, so its result may be incomplete
			return c
		}
	}
	c := *x.last
	c.Reports, c.Unresponsive = slices.Clone(c.Reports), slices.Clone(c.Unresponsive) // callers may modify their result
	return c
}

// checkup asks all alive nodes for their reports, see Checkup. It does not use the cache.
func (n *Node) checkup(ctx context.Context, reach bool) diagnosis.Checkup {
	ctx, cancel := context.WithTimeout(ctx, checkupTimeout)
	defer cancel()
	c := diagnosis.Checkup{From: string(n.self), AskedNS: int64(n.o.Clock.Precise())}
	var own diagnosis.Report
	var wg sync.WaitGroup
	wg.Go(func() { own = n.report(ctx, reach) })
	told, silent := control.Broadcast(ctx, n.client, n.view.OtherAliveNodes(), control.Request{Kind: control.Report, Firm: reach}, diagnosis.Report{})
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

// report returns the report of this node about itself. With reach, it contains the ports of other nodes
// that this node cannot reach.
func (n *Node) report(ctx context.Context, reach bool) diagnosis.Report {
	s := n.router.State()
	r := diagnosis.Report{
		Node: string(n.self), Boot: n.o.Dir.Boot(), Version: n.o.Version, State: n.state(), Leader: n.view.Leader(), Term: n.raft.Term(),
		Epoch: uint64(s.Committed().Epoch()), Flags: leaderloop.DescribeTiming(n.o.Timing), ClockNS: int64(n.o.Clock.Precise()), Findings: n.Findings(), Settings: n.ownSettings(),
	}
	if known := n.fsm.state.Load(); known.Bootstrapped() {
		r.Timing = leaderloop.DescribeTiming(known.Timing())
	}
	if reach {
		r.Unreached = n.unreached(ctx)
		r.ClockNS = int64(n.o.Clock.Precise())
	}
	return r
}

// unreached connects to the ports of all other alive nodes, and returns the ports that it cannot reach.
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

// portsOfOthers lists the ports of the other alive nodes: the gossip port and the announced endpoints.
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

// tries checks whether a port accepts a connection within reachTimeout. It closes the connection.
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

// plain returns the text of an error of a dial without the address, because callers print the address
// separately.
func plain(err error) string {
	if op, ok := err.(*net.OpError); ok && op.Err != nil { //nolint:errorlint // a wrapping error contains more information
		if op.Timeout() {
			return "no answer within " + strconv.Itoa(int(reachTimeout/time.Second)) + " s"
		}
		return op.Err.Error()
	}
	return err.Error()
}
