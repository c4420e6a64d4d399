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
	"shardway/internal/clock"
	"shardway/internal/logsafe"
	"shardway/node/control"
	"shardway/node/gossip"
	"shardway/node/leaderloop"
)

const (
	// checkupTimeout bounds the collection of the reports of all nodes.
	checkupTimeout = 5 * time.Second
	// DialTimeout bounds one attempt to connect to a port.
	DialTimeout = time.Second
	// maxUnreachedPorts is the largest number of ports in a report.
	maxUnreachedPorts = 256
)

// checkupCache caches the last checkup of a kind, because a checkup is expensive: it queries every node, and if
// reach is set, each of them connects to every port of all others. lock protects the other fields.
type checkupCache struct {
	lock       chan struct{}      // cap 1, used as a lock; callers that wait for it receive the cached result
	finishedAt time.Time          // time of the last checkup, complete or not
	complete   *diagnosis.Checkup // last complete checkup; nil means none
}

// newCheckupCache returns a checkupCache without a result.
func newCheckupCache() checkupCache { return checkupCache{lock: make(chan struct{}, 1)} }

// Checkups collects the diagnostic reports of all nodes.
type Checkups struct {
	nodes       otherNodes
	clock       clock.Clock
	localReport func(ctx context.Context, reach bool) diagnosis.Report // API.LocalReport
	// Caches of checkups without and with the ports that nodes cannot reach.
	withoutPorts, withPorts checkupCache
}

// Checkup asks all alive nodes for their reports, at most once in control.CacheTime. Callers within that time
// receive the same result. If reach is set, the reports also contain the ports that each node cannot reach. If ctx
// ends first, the result may be incomplete or empty.
func (c *Checkups) Checkup(ctx context.Context, reach bool) diagnosis.Checkup {
	cache := &c.withoutPorts
	if reach {
		cache = &c.withPorts
	}
	empty := diagnosis.Checkup{From: c.nodes.self}
	select {
	case cache.lock <- struct{}{}:
		defer func() { <-cache.lock }()
	case <-ctx.Done():
		return empty
	}
	cacheTimeLeft := time.Until(cache.finishedAt.Add(control.CacheTime)) // negative before the first checkup
	if cache.complete == nil {
		// The last checkup was cancelled by its caller. Wait, so that cancelled callers do not cause more than one
		// checkup per control.CacheTime.
		select {
		case <-time.After(cacheTimeLeft):
			cacheTimeLeft = 0
		case <-ctx.Done():
			return empty
		}
	}
	if cacheTimeLeft <= 0 {
		checkup := c.collect(ctx, reach)
		cache.finishedAt, cache.complete = time.Now(), &checkup
		if ctx.Err() != nil {
			cache.complete = nil // the checkup was cancelled, so its result may be incomplete
			return checkup
		}
	}
	checkup := *cache.complete
	checkup.Reports, checkup.Unresponsive = slices.Clone(checkup.Reports), slices.Clone(checkup.Unresponsive) // callers may modify their result
	return checkup
}

// collect asks all alive nodes for their reports, see Checkup. It bypasses the cache.
func (c *Checkups) collect(ctx context.Context, reach bool) diagnosis.Checkup {
	ctx, cancel := context.WithTimeout(ctx, checkupTimeout)
	defer cancel()
	checkup := diagnosis.Checkup{From: c.nodes.self, AskedNS: int64(c.clock.Precise())}
	ownReport := make(chan diagnosis.Report, 1)
	go func() { ownReport <- c.localReport(ctx, reach) }() // at the same time as the other nodes
	request := control.Request{Kind: control.Report, Execute: reach}
	reports, unresponsive := queryNodes(ctx, c.nodes, request, func() diagnosis.Report { return <-ownReport }, diagnosis.Report{})
	checkup.AnsweredNS, checkup.Unresponsive = int64(c.clock.Precise()), unresponsive
	for id, report := range reports {
		report.Node = id
		checkup.Reports = append(checkup.Reports, report)
	}
	slices.SortFunc(checkup.Reports, func(a, b diagnosis.Report) int { return cmp.Compare(a.Node, b.Node) })
	return checkup
}

// LocalReport returns the report of this node about itself. If reach is set, it contains the ports of other nodes
// that this node cannot reach.
func (a *API) LocalReport(ctx context.Context, reach bool) diagnosis.Report {
	s := a.snapshot(nil)
	applied := s.replicated
	report := diagnosis.Report{
		Node: string(a.options.Self), Boot: a.options.Dir.Boot(), Version: a.options.Version, State: a.nodeState(s), Leader: s.leader, Term: s.term,
		Epoch: uint64(applied.Committed().Epoch()), Flags: leaderloop.DescribeTiming(a.options.Timing), ClockNS: int64(a.options.Clock.Precise()), Findings: a.options.Findings().List, Settings: a.OwnSettings(),
	}
	if replicated := a.options.View.State(); replicated.Bootstrapped() {
		report.Timing = leaderloop.DescribeTiming(replicated.Timing())
	}
	if reach {
		ports := otherNodesPorts(a.options.View.Gossip.Members(), string(a.options.Self))
		report.UnreachablePorts = unreachablePorts(ctx, ports, a.options.PeerDial)
		report.ClockNS = int64(a.options.Clock.Precise())
	}
	return report
}

// dialFunc connects to an address.
type dialFunc func(ctx context.Context, addr string) (net.Conn, error)

// unreachablePorts connects to ports, and returns those that it cannot reach, with the reason. If dial is nil, it
// dials over TCP.
func unreachablePorts(ctx context.Context, ports []diagnosis.UnreachablePort, dial dialFunc) (unreachable []diagnosis.UnreachablePort) {
	if dial == nil {
		var dialer net.Dialer
		dial = func(ctx context.Context, addr string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) }
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	semaphore := make(chan struct{}, control.MaxParallel)
	for _, port := range ports {
		wg.Go(func() {
			semaphore <- struct{}{}
			defer func() { <-semaphore }()
			if err := probePort(ctx, dial, port.Addr); err != nil {
				port.Why = logsafe.OneLine(DialErrorText(err))
				mu.Lock()
				defer mu.Unlock()
				unreachable = append(unreachable, port)
			}
		})
	}
	wg.Wait()
	slices.SortFunc(unreachable, func(a, b diagnosis.UnreachablePort) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Port, b.Port))
	})
	return unreachable[:min(len(unreachable), maxUnreachedPorts)]
}

// otherNodesPorts lists the ports of the alive nodes in members except self: the gossip port and the announced
// endpoints.
func otherNodesPorts(members []gossip.Member, self string) (ports []diagnosis.UnreachablePort) {
	for _, member := range members {
		if !member.Node || member.ID == self || member.Status != gossip.Alive {
			continue
		}
		ports = append(ports, diagnosis.UnreachablePort{Node: member.ID, Port: "gossip", Addr: member.Addr.String()})
		for _, name := range []string{endpoints.Peer, endpoints.HTTP, "admin"} {
			if addr := member.Tags.Endpoints[name]; addr != "" {
				ports = append(ports, diagnosis.UnreachablePort{Node: member.ID, Port: name, Addr: addr})
			}
		}
	}
	return ports
}

// probePort checks whether a port accepts a connection within DialTimeout. It closes the connection.
func probePort(ctx context.Context, dial dialFunc, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	conn, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// DialErrorText returns the text of a dial error without the address, which callers print separately.
func DialErrorText(err error) string {
	if opErr, ok := err.(*net.OpError); ok && opErr.Err != nil { //nolint:errorlint // a wrapping error contains more information
		if opErr.Timeout() {
			return "no answer within " + strconv.Itoa(int(DialTimeout/time.Second)) + " s"
		}
		return opErr.Err.Error()
	}
	return err.Error()
}
