package adminapi

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
	// checkupTimeout bounds the collection of the reports of all nodes.
	checkupTimeout = 5 * time.Second
	// ReachTimeout bounds one attempt to connect to a port.
	ReachTimeout = time.Second
	// maxUnreached is the largest number of ports in a report.
	maxUnreached = 256
)

// checkupCache caches the last checkup of a kind, because a checkup is expensive: it asks every node, and
// with reach, each of them connects to every port of all other nodes. place protects the other fields.
type checkupCache struct {
	place chan struct{}      // cap 1, used as a lock; a caller that waits for it receives the cached result
	asked time.Time          // time of the last checkup, complete or not
	last  *diagnosis.Checkup // last complete checkup; nil means none
}

// newCheckupCache returns an checkupCache without a result.
func newCheckupCache() checkupCache { return checkupCache{place: make(chan struct{}, 1)} }

// Checkup asks all alive nodes for their reports, at most once in control.CacheTime. Callers within that
// time receive the same result. With reach, the reports also contain the ports that each node cannot
// reach. If ctx ends first, the result may be incomplete or empty.
func (a *API) Checkup(ctx context.Context, reach bool) diagnosis.Checkup {
	x := &a.checkups[0]
	if reach {
		x = &a.checkups[1]
	}
	none := diagnosis.Checkup{From: string(a.o.Self)}
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
		c := a.checkup(ctx, reach)
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
func (a *API) checkup(ctx context.Context, reach bool) diagnosis.Checkup {
	ctx, cancel := context.WithTimeout(ctx, checkupTimeout)
	defer cancel()
	c := diagnosis.Checkup{From: string(a.o.Self), AskedNS: int64(a.o.Clock.Precise())}
	var own diagnosis.Report
	var wg sync.WaitGroup
	wg.Go(func() { own = a.LocalReport(ctx, reach) })
	told, silent := control.Broadcast(ctx, a.o.Client, a.o.View.OtherAliveNodes(), control.Request{Kind: control.Report, Firm: reach}, diagnosis.Report{})
	wg.Wait()
	c.AnsweredNS, c.Unresponsive = int64(a.o.Clock.Precise()), silent
	told[string(a.o.Self)] = own
	for id, r := range told {
		r.Node = id
		c.Reports = append(c.Reports, r)
	}
	slices.SortFunc(c.Reports, func(a, b diagnosis.Report) int { return cmp.Compare(a.Node, b.Node) })
	return c
}

// LocalReport returns the report of this node about itself. With reach, it contains the ports of other nodes
// that this node cannot reach.
func (a *API) LocalReport(ctx context.Context, reach bool) diagnosis.Report {
	s := a.o.Router.State()
	r := diagnosis.Report{
		Node: string(a.o.Self), Boot: a.o.Dir.Boot(), Version: a.o.Version, State: a.state(), Leader: a.o.View.Leader(), Term: a.o.View.Raft.Term(),
		Epoch: uint64(s.Committed().Epoch()), Flags: leaderloop.DescribeTiming(a.o.Timing), ClockNS: int64(a.o.Clock.Precise()), Findings: a.Findings(), Settings: a.OwnSettings(),
	}
	if known := a.o.View.State(); known.Bootstrapped() {
		r.Timing = leaderloop.DescribeTiming(known.Timing())
	}
	if reach {
		r.UnreachablePorts = a.unreachablePorts(ctx)
		r.ClockNS = int64(a.o.Clock.Precise())
	}
	return r
}

// unreachablePorts connects to the ports of all other alive nodes, and returns the ports that it cannot reach.
func (a *API) unreachablePorts(ctx context.Context) (out []diagnosis.UnreachablePort) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	places := make(chan struct{}, control.MaxParallel)
	for _, p := range a.portsOfOthers() {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if err := a.probePort(ctx, p.Addr); err != nil {
				p.Why = logsafe.OneLine(DialErrorText(err))
				mu.Lock()
				defer mu.Unlock()
				out = append(out, p)
			}
		})
	}
	wg.Wait()
	slices.SortFunc(out, func(a, b diagnosis.UnreachablePort) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Port, b.Port))
	})
	return out[:min(len(out), maxUnreached)]
}

// portsOfOthers lists the ports of the other alive nodes: the gossip port and the announced endpoints.
func (a *API) portsOfOthers() (all []diagnosis.UnreachablePort) {
	for _, m := range a.o.View.Gossip.Members() {
		if !m.Node || m.ID == string(a.o.Self) || m.Status != gossip.Alive {
			continue
		}
		all = append(all, diagnosis.UnreachablePort{Node: m.ID, Port: "gossip", Addr: m.Addr.String()})
		for _, name := range []string{endpoints.Peer, endpoints.HTTP, "admin"} {
			if addr := m.Tags.Endpoints[name]; addr != "" {
				all = append(all, diagnosis.UnreachablePort{Node: m.ID, Port: name, Addr: addr})
			}
		}
	}
	return all
}

// probePort checks whether a port accepts a connection within reachTimeout. It closes the connection.
func (a *API) probePort(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, ReachTimeout)
	defer cancel()
	dial := a.o.PeerDial
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

// DialErrorText returns the text of an error of a dial without the address, because callers print the address
// separately.
func DialErrorText(err error) string {
	if op, ok := err.(*net.OpError); ok && op.Err != nil { //nolint:errorlint // a wrapping error contains more information
		if op.Timeout() {
			return "no answer within " + strconv.Itoa(int(ReachTimeout/time.Second)) + " s"
		}
		return op.Err.Error()
	}
	return err.Error()
}
