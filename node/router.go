package node

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"shardway/ack"
	"shardway/internal/clock"
	"shardway/peer"
	"shardway/proxy"
	"shardway/shardmap"
)

// router is the node as the proxy sees it: table, lease and in-flight counts in
// one place. Only the agent writes it; any number of requests read it.
type router struct {
	clock            clock.Clock
	port             *peer.Port
	requestStreams   *lanes // for requests
	webSocketStreams *lanes // for kept sockets

	table        atomic.Pointer[proxy.Table]
	state        atomic.Pointer[ack.State]  // what table was made from
	keys         atomic.Pointer[activeKeys] // of state
	lease        atomic.Int64               // until when, by the clock; zero without one
	abortAt      atomic.Int64               // when what was admitted under the last lease is to be cut, if it has ended; zero: there was none
	running      *inflight
	hadRequests  atomic.Bool // somebody was since the agent looked last: see ack.Seen.Asked
	withoutLease *absence
	// notAcquired is told what the app says it does not hold; nil: it is not asked.
	notAcquired func(s shardmap.Shard, epoch shardmap.Epoch)

	mu struct {
		sync.Mutex
		swapped chan struct{} // closed at the next swap
	}
}

var _ proxy.Cluster = (*router)(nil)

func newRouter(self shardmap.NodeID, shards int, c clock.Clock, port *peer.Port) *router {
	r := &router{clock: c, port: port, requestStreams: newLanes(port), webSocketStreams: newLegs(port), running: newInflight(shards), withoutLease: newAbsence(c.Precise())}
	r.mu.swapped = make(chan struct{})
	r.swap(ack.NewRouting(self, ack.NewState(), 0, false))
	return r
}

// swap puts a table made of r in the place of the old one, and returns its
// generation.
func (r *router) swap(routing ack.Routing) uint64 {
	var generation uint64 = 1
	if old := r.table.Load(); old != nil {
		generation = old.Generation() + 1
	}
	s := routing.State()
	keys := keysOf(s, r.keys.Load())
	route := func(sh shardmap.Shard) proxy.Route { return proxyRoute(routing.Route(sh)) }
	if keys.err != nil { // no request has a key that can be relied on
		route = func(shardmap.Shard) proxy.Route { return proxy.Route{Kind: proxy.Held, Reason: proxy.ReasonMoving} }
	}
	t := proxy.NewTable(proxy.TableSpec{
		Generation: generation,
		Committed:  uint64(s.Committed().Epoch()),
		Proposed:   uint64(s.Last().Epoch()),
		Shards:     len(r.running.shards),
		Before:     r.table.Load(),
		Keys:       keys.keys,
		KeysSince:  uint64(s.KeysSince()),
		Route:      route,
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

// routed is a route in the proxy's words.
func proxyRoute(r ack.Route) proxy.Route {
	switch r.Kind {
	case ack.RouteLocal:
		return proxy.Route{Kind: proxy.Local, Epoch: uint64(r.Epoch)}
	case ack.RouteRemote:
		return proxy.Route{Kind: proxy.Remote, Node: string(r.Node), Epoch: uint64(r.Epoch)}
	case ack.HeldPaused:
		return proxy.Route{Kind: proxy.Held, Reason: proxy.ReasonPaused}
	case ack.HeldMoving:
		return proxy.Route{Kind: proxy.Held, Reason: proxy.ReasonMoving}
	case ack.HeldOrphaned:
		return proxy.Route{Kind: proxy.Held, Reason: proxy.ReasonOrphaned}
	case ack.HeldAcquiring:
		return proxy.Route{Kind: proxy.Held, Reason: proxy.ReasonAcquiring}
	case ack.HeldRestarting:
		return proxy.Route{Kind: proxy.Held, Reason: proxy.ReasonAbsent}
	case ack.HeldNoMap:
	}
	return proxy.Route{Kind: proxy.Held, Reason: proxy.ReasonNoMap}
}

// Table returns the routing table of this moment.
func (r *router) Table() *proxy.Table { return r.table.Load() }

// Admit raises the shard's in-flight count, then looks at table and lease.
func (r *router) Admit(s shardmap.Shard) (epoch uint64, release func(), err error) {
	if release = r.running.raise(s); !r.hadRequests.Load() { // once for each look of the agent: all who ask read it
		r.hadRequests.Store(true)
	}
	route := r.table.Load().Route(s)
	switch {
	case route.Kind == proxy.Held:
		err = proxy.RefusedHeld
	case route.Kind != proxy.Local:
		err = proxy.RefusedNotOwner
	case !r.leased():
		err = proxy.RefusedNoLease
	default:
		return route.Epoch, release, nil
	}
	release()
	return 0, nil, err
}

// leased is the one function that admission and readiness ask.
func (r *router) leased() bool { return int64(r.clock.Now()) < r.lease.Load() }

// LeaseLeft returns for how long this node may serve, by the precise clock.
func (r *router) LeaseLeft() time.Duration {
	return time.Duration(r.lease.Load()) - r.clock.Precise()
}

// leaseEnd returns when the lease in force ends or has ended, zero without one.
func (r *router) leaseEnd() time.Duration { return time.Duration(r.lease.Load()) }

// outlived reports that what runs here should have been cut: the agent comes to that
// when it has a processor, and what runs asks the clock itself.
func (r *router) abortOverdue() bool {
	at := r.abortAt.Load()
	return at != 0 && int64(r.clock.Precise()) >= at
}

// setLease publishes the end of the lease, zero for none, and returns the one that was
// published before. If that is another one, now is when the clock was read after that: whoever
// does knows whether a request can have met the end of the old one.
func (r *router) setLease(end time.Duration) (last, now time.Duration) {
	if last = time.Duration(r.lease.Swap(int64(end))); last != end {
		now = r.clock.Precise()
		r.withoutLease.lease(now, end)
	}
	return last, now
}

// leaseAbsent returns for how long this node has been without a lease, of the time
// since its start.
func (r *router) timeWithoutLease() time.Duration { return r.withoutLease.sum(r.clock.Precise()) }

// Await waits until this node routes by both epochs or later ones.
func (r *router) Await(ctx context.Context, committed, proposed uint64) bool {
	return r.awaitTable(ctx, func(t *proxy.Table) bool { return t.Committed() >= committed && t.Proposed() >= proposed })
}

// awaitTable waits for a table that is good, and returns false when ctx ended first.
func (r *router) awaitTable(ctx context.Context, accept func(*proxy.Table) bool) bool {
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

// Dial opens a stream for forwarded requests to the node.
func (r *router) Dial(ctx context.Context, node string) (net.Conn, error) {
	return r.port.Dial(ctx, node, peer.Forward)
}

// Lane opens a lane for small requests to the node, if there is one at once.
func (r *router) Lane(node string) net.Conn {
	if l := r.requestStreams.set.OpenStream(node); l != nil {
		return l
	}
	return nil
}

// Leg opens a lane for a kept socket to the node. It may wait for a trunk, as long as ctx.
func (r *router) Leg(ctx context.Context, node string) net.Conn {
	if l := r.webSocketStreams.set.OpenStreamWait(ctx, node); l != nil {
		return l
	}
	return nil
}
