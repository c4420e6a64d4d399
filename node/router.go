package node

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"shardway/ack"
	"shardway/internal/clock"
	"shardway/node/muxpool"
	"shardway/peer"
	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// router implements proxy.Cluster: it contains the routing table, the lease and the numbers of
// in-flight requests. Only the goroutine of agent.run writes the table and the lease. Any number of
// requests read them.
type router struct {
	clock            clock.Clock
	port             *peer.Port
	requestStreams   *muxpool.Pool // connections to other nodes for forwarded requests
	webSocketStreams *muxpool.Pool // connections to other nodes for resumable WebSockets

	table        atomic.Pointer[route.Table]
	state        atomic.Pointer[ack.State]  // the state that table was built from
	keys         atomic.Pointer[activeKeys] // the active key configuration of state
	lease        atomic.Int64               // time of the clock at which the lease ends; zero means no lease
	abortAt      atomic.Int64               // time at which requests of the last lease must be aborted once it has ended; zero means there was no lease
	running      *inflight
	hadRequests  atomic.Bool // a request was admitted or refused since the last poll of the agent, see agent.Observation.HasRequests
	withoutLease *leaseGaps
	// notAcquired is called if the app responds that it does not hold a shard; nil means that the
	// app is not asked.
	notAcquired func(s shardmap.Shard, epoch shardmap.Epoch)

	mu struct {
		sync.Mutex
		swapped chan struct{} // closed at the next swap
	}
}

var _ proxy.Cluster = (*router)(nil)

// newRouter returns a router without a shard map and without a lease. shards is the number of shards.
func newRouter(self shardmap.NodeID, shards int, c clock.Clock, port *peer.Port) *router {
	r := &router{clock: c, port: port, requestStreams: muxpool.NewForRequests(port), webSocketStreams: muxpool.NewForWebSockets(port), running: newInflight(shards), withoutLease: newLeaseGaps(c.Precise())}
	r.mu.swapped = make(chan struct{})
	r.swap(ack.NewRouting(self, ack.NewState(), 0, false))
	return r
}

// swap replaces the routing table by one built from routing, and returns the new generation. It
// wakes all callers of awaitTable.
func (r *router) swap(routing ack.Routing) uint64 {
	var generation uint64 = 1
	if old := r.table.Load(); old != nil {
		generation = old.Generation() + 1
	}
	s := routing.State()
	keys := keysOf(s, r.keys.Load())
	routeOf := func(sh shardmap.Shard) route.Route { return proxyRoute(routing.Route(sh)) }
	if keys.err != nil { // without valid keys, the shard of a request cannot be determined
		routeOf = func(shardmap.Shard) route.Route { return route.Route{Kind: route.Held, Reason: route.ReasonMoving} }
	}
	t := route.NewTable(route.TableSpec{
		Generation: generation,
		Committed:  uint64(s.Committed().Epoch()),
		Proposed:   uint64(s.Last().Epoch()),
		Shards:     len(r.running.shards),
		Before:     r.table.Load(),
		Keys:       keys.keys,
		KeysSince:  uint64(s.KeysSince()),
		Route:      routeOf,
	})
	r.keys.Store(keys)
	r.state.Store(s)
	r.table.Store(t)
	r.mu.Lock()
	close(r.mu.swapped)
	r.mu.swapped = make(chan struct{})
	r.mu.Unlock()
	return generation
}

// proxyRoute converts a route of package ack to a route of the proxy.
func proxyRoute(r ack.Route) route.Route {
	switch r.Kind {
	case ack.RouteLocal:
		return route.Route{Kind: route.Local, Epoch: uint64(r.Epoch)}
	case ack.RouteRemote:
		return route.Route{Kind: route.Remote, Node: string(r.Node), Epoch: uint64(r.Epoch)}
	case ack.HeldPaused:
		return route.Route{Kind: route.Held, Reason: route.ReasonPaused}
	case ack.HeldMoving:
		return route.Route{Kind: route.Held, Reason: route.ReasonMoving}
	case ack.HeldOrphaned:
		return route.Route{Kind: route.Held, Reason: route.ReasonOrphaned}
	case ack.HeldAcquiring:
		return route.Route{Kind: route.Held, Reason: route.ReasonAcquiring}
	case ack.HeldRestarting:
		return route.Route{Kind: route.Held, Reason: route.ReasonAbsent}
	case ack.HeldNoMap:
	}
	return route.Route{Kind: route.Held, Reason: route.ReasonNoMap}
}

// Table returns the current routing table.
func (r *router) Table() *route.Table { return r.table.Load() }

// Admit counts a request for shard s as in flight if this node owns the shard and has a lease. The
// caller must call release when the request has ended. The order matters: Admit first raises the
// in-flight count, and then reads the table and the lease. Otherwise the agent could see no
// request in flight after the shard has moved, although one is admitted.
func (r *router) Admit(s shardmap.Shard) (epoch uint64, release func(), err error) {
	if release = r.running.raise(s); !r.hadRequests.Load() { // the check avoids a write by every request, which would contend for the cache line
		r.hadRequests.Store(true)
	}
	dest := r.table.Load().Route(s)
	switch {
	case dest.Kind == route.Held:
		err = route.RefusedHeld
	case dest.Kind != route.Local:
		err = route.RefusedNotOwner
	case !r.leased():
		err = route.RefusedNoLease
	default:
		return dest.Epoch, release, nil
	}
	release()
	return 0, nil, err
}

// leased reports whether this node has a lease now. Admission and readiness both use it.
func (r *router) leased() bool { return int64(r.clock.Now()) < r.lease.Load() }

// LeaseLeft returns the remaining time of the lease, by the precise clock. It is negative without a lease.
func (r *router) LeaseLeft() time.Duration {
	return time.Duration(r.lease.Load()) - r.clock.Precise()
}

// leaseEnd returns the time at which the lease ends or has ended; zero means no lease.
func (r *router) leaseEnd() time.Duration { return time.Duration(r.lease.Load()) }

// abortOverdue reports whether the running requests should have been aborted by now. The agent
// aborts them when it is scheduled, which may be late, so the requests also check the clock themselves.
func (r *router) abortOverdue() bool {
	at := r.abortAt.Load()
	return at != 0 && int64(r.clock.Precise()) >= at
}

// setLease publishes the end of the lease and returns the previous end; zero means no lease. If the end has
// changed, now is the time after the change. If now is not before the previous end, a request may have
// been refused because the previous lease had expired. If the end has not changed, now is zero.
func (r *router) setLease(end time.Duration) (last, now time.Duration) {
	if last = time.Duration(r.lease.Swap(int64(end))); last != end {
		now = r.clock.Precise()
		r.withoutLease.setLease(now, end)
	}
	return last, now
}

// timeWithoutLease returns the total time without a lease since the start of this process.
func (r *router) timeWithoutLease() time.Duration { return r.withoutLease.total(r.clock.Precise()) }

// Await waits until the routing table contains both epochs or later ones. It returns false if ctx
// ends first.
func (r *router) Await(ctx context.Context, committed, proposed uint64) bool {
	return r.awaitTable(ctx, func(t *route.Table) bool { return t.Committed() >= committed && t.Proposed() >= proposed })
}

// awaitTable waits for a table that accept accepts. It returns false if ctx ends first.
func (r *router) awaitTable(ctx context.Context, accept func(*route.Table) bool) bool {
	for {
		r.mu.Lock()
		swapped := r.mu.swapped
		r.mu.Unlock()
		if accept(r.table.Load()) {
			return true
		}
		select {
		case <-swapped:
		case <-ctx.Done():
			return false
		}
	}
}

// Dial opens a connection to the node for forwarded requests.
func (r *router) Dial(ctx context.Context, node string) (net.Conn, error) {
	return r.port.Dial(ctx, node, peer.Forward)
}

// OpenStream opens a multiplexed stream to the node for small requests. It does not wait. nil means that no
// stream is available now.
func (r *router) OpenStream(node string) net.Conn {
	if l := r.requestStreams.Outgoing.OpenStream(node); l != nil {
		return l
	}
	return nil
}

// OpenWebSocketStream opens a multiplexed stream to the node for a resumable WebSocket. It may wait for a
// new mux session until ctx ends. nil means that no stream could be opened.
func (r *router) OpenWebSocketStream(ctx context.Context, node string) net.Conn {
	if l := r.webSocketStreams.Outgoing.OpenStreamWait(ctx, node); l != nil {
		return l
	}
	return nil
}
