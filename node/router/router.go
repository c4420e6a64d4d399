package router

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

// Router implements proxy.Cluster: it contains the routing table, the lease and the numbers of
// in-flight requests. Only the goroutine of agent.run writes the table and the lease. Any number of
// requests read them.
type Router struct {
	shards           int // number of shards until the map is known
	clock            clock.Clock
	port             *peer.Port
	RequestStreams   *muxpool.Pool // connections to other nodes for forwarded requests
	WebSocketStreams *muxpool.Pool // connections to other nodes for resumable WebSockets

	table       atomic.Pointer[route.Table]
	state       atomic.Pointer[ack.State]  // the state that table was built from
	keys        atomic.Pointer[activeKeys] // the active key configuration of state
	leaseEnd    atomic.Int64               // time of the clock at which the lease ends; zero means no lease
	abortAt     atomic.Int64               // time at which requests of the last lease must be aborted once it has ended; zero means there was no lease
	InFlight    *InFlight
	hadRequests atomic.Bool // a request was admitted or refused since the last poll of the agent, see agent.Observation.HasRequests
	leaseGaps   *leaseGaps
	// OnNotAcquired is called if the app responds that it does not hold a shard. If it is nil, the app is not
	// asked.
	OnNotAcquired func(s shardmap.Shard, epoch shardmap.Epoch)

	mu struct {
		sync.Mutex
		swapped chan struct{} // closed at the next swap
	}
}

var _ proxy.Cluster = (*Router)(nil)

// New returns a router without a shard map and without a lease. shards is the number of shards until the map of the
// cluster is known, which may be longer.
func New(self shardmap.NodeID, shards int, clk clock.Clock, port *peer.Port) *Router {
	router := &Router{clock: clk, port: port, RequestStreams: muxpool.NewForRequests(port), WebSocketStreams: muxpool.NewForWebSockets(port), InFlight: NewInFlight(), shards: shards, leaseGaps: newLeaseGaps(clk.Precise())}
	router.mu.swapped = make(chan struct{})
	router.SwapTable(ack.NewRouting(self, ack.NewState(), 0, false))
	return router
}

// SwapTable replaces the routing table by one built from routing, and returns the new generation. It
// wakes all callers of AwaitTable.
func (r *Router) SwapTable(routing ack.Routing) uint64 {
	var generation uint64 = 1
	if current := r.table.Load(); current != nil {
		generation = current.Generation() + 1
	}
	state := routing.State()
	keys := activeKeysOf(state, r.keys.Load())
	routeOf := func(shard shardmap.Shard) route.Route { return proxyRoute(routing.Route(shard)) }
	if keys.err != nil { // without valid keys, the shard of a request cannot be determined
		routeOf = func(shardmap.Shard) route.Route { return route.Route{Kind: route.Queued, Reason: route.ReasonMoving} }
	}
	table := route.NewTable(route.TableSpec{
		Generation: generation,
		Committed:  uint64(state.Committed().Epoch()),
		Proposed:   uint64(state.Proposed().Epoch()),
		Shards:     max(r.shards, state.Proposed().Len()),
		Previous:   r.table.Load(),
		Keys:       keys.keys,
		KeysSince:  uint64(state.KeyConfigSince()),
		Services:   proxyServices(state),
		Route:      routeOf,
	})
	r.keys.Store(keys)
	r.state.Store(state)
	r.table.Store(table)
	r.mu.Lock()
	close(r.mu.swapped)
	r.mu.swapped = make(chan struct{})
	r.mu.Unlock()
	return generation
}

// proxyServices returns the services of a state. nil means that the cluster has no list of services.
func proxyServices(state *ack.State) []route.Service {
	if !state.HasServices() {
		return nil
	}
	services := make([]route.Service, 0, len(state.Services()))
	for _, service := range state.Services() {
		services = append(services, route.Service{Name: service.Name, First: service.First, Shards: service.Shards})
	}
	return services
}

// proxyRoute converts a route of package ack to a route of the proxy.
func proxyRoute(ackRoute ack.Route) route.Route {
	switch ackRoute.Kind {
	case ack.RouteLocal:
		return route.Route{Kind: route.Local, Epoch: uint64(ackRoute.Epoch), Instance: uint8(ackRoute.Instance)}
	case ack.RouteRemote:
		return route.Route{Kind: route.Remote, Node: string(ackRoute.Node), Epoch: uint64(ackRoute.Epoch)}
	case ack.QueuedPaused:
		return route.Route{Kind: route.Queued, Reason: route.ReasonPaused}
	case ack.QueuedMoving:
		return route.Route{Kind: route.Queued, Reason: route.ReasonMoving}
	case ack.QueuedOrphaned:
		return route.Route{Kind: route.Queued, Reason: route.ReasonOrphaned}
	case ack.QueuedAcquiring:
		return route.Route{Kind: route.Queued, Reason: route.ReasonAcquiring}
	case ack.QueuedRestarting:
		return route.Route{Kind: route.Queued, Reason: route.ReasonRestarting}
	case ack.QueuedNoMap:
	}
	return route.Route{Kind: route.Queued, Reason: route.ReasonNoMap}
}

// State returns the replicated state that the current routing table was built from.
func (r *Router) State() *ack.State { return r.state.Load() }

// KeysError returns why the active key configuration of the state is invalid, or nil if it is valid.
func (r *Router) KeysError() error {
	if keys := r.keys.Load(); keys != nil {
		return keys.err
	}
	return nil
}

// Table returns the current routing table.
func (r *Router) Table() *route.Table { return r.table.Load() }

// Admit counts a request for shard as in flight if this node owns the shard and has a lease. The caller must call
// release when the request has ended. The order matters: Admit first raises the in-flight count, and then reads the
// table and the lease. Otherwise the agent could see no request in flight after the shard has moved, although one
// was admitted.
func (r *Router) Admit(shard shardmap.Shard) (epoch uint64, release func(), err error) {
	if release = r.InFlight.Begin(shard); !r.hadRequests.Load() { // the check avoids a write by every request, which would contend for the cache line
		r.hadRequests.Store(true)
	}
	target := r.table.Load().Route(shard)
	switch {
	case target.Kind == route.Queued:
		err = route.RefusedQueued
	case target.Kind != route.Local:
		err = route.RefusedNotOwner
	case !r.HasLease():
		err = route.RefusedNoLease
	default:
		return target.Epoch, release, nil
	}
	r.InFlight.endRefused(shard)
	return 0, nil, err
}

// HasLease reports whether this node has a lease now. Admission and readiness both use it.
func (r *Router) HasLease() bool { return int64(r.clock.Now()) < r.leaseEnd.Load() }

// LeaseLeft returns the remaining time of the lease, by the precise clock. It is negative without a lease.
func (r *Router) LeaseLeft() time.Duration {
	return time.Duration(r.leaseEnd.Load()) - r.clock.Precise()
}

// LeaseEnd returns the time at which the lease ends or has ended, or zero if there was no lease.
func (r *Router) LeaseEnd() time.Duration { return time.Duration(r.leaseEnd.Load()) }

// SetAbortTime sets the time at which the requests of the current lease must be aborted once it has ended.
// It must be called before SetLease, because requests that the lease admits read it.
func (r *Router) SetAbortTime(at time.Duration) { r.abortAt.Store(int64(at)) }

// AbortTime returns the time of the last SetAbortTime, or zero if there was no lease yet.
func (r *Router) AbortTime() time.Duration { return time.Duration(r.abortAt.Load()) }

// HadRequests reports whether a request was admitted or refused since its previous call.
func (r *Router) HadRequests() bool { return r.hadRequests.Swap(false) }

// IsAbortOverdue reports whether the running requests should have been aborted by now. The agent
// aborts them when it is scheduled, which may be late, so the requests also check the clock themselves.
func (r *Router) IsAbortOverdue() bool {
	abortAt := r.abortAt.Load()
	return abortAt != 0 && int64(r.clock.Precise()) >= abortAt
}

// SetLease publishes the end of the lease and returns the previous end. Zero means no lease. If the end has
// changed, now is the time after the change. If now is not before the previous end, a request may have been refused
// because the previous lease had expired. If the end has not changed, now is zero.
func (r *Router) SetLease(end time.Duration) (previous, now time.Duration) {
	if previous = time.Duration(r.leaseEnd.Swap(int64(end))); previous != end {
		now = r.clock.Precise()
		r.leaseGaps.setLease(now, end)
	}
	return previous, now
}

// TimeWithoutLease returns the total time without a lease since the start of this process.
func (r *Router) TimeWithoutLease() time.Duration { return r.leaseGaps.total(r.clock.Precise()) }

// Await waits until the routing table contains both epochs or later ones. It returns false if ctx
// ends first.
func (r *Router) Await(ctx context.Context, committed, proposed uint64) bool {
	return r.AwaitTable(ctx, func(table *route.Table) bool { return table.Committed() >= committed && table.Proposed() >= proposed })
}

// AwaitTable waits for a table that accept accepts. It returns false if ctx ends first.
func (r *Router) AwaitTable(ctx context.Context, accept func(*route.Table) bool) bool {
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
func (r *Router) Dial(ctx context.Context, node string) (net.Conn, error) {
	return r.port.Dial(ctx, node, peer.Forward)
}

// OpenStream opens a multiplexed stream to the node for small requests. It does not wait, and returns nil if no
// stream is available now.
func (r *Router) OpenStream(node string) net.Conn {
	if stream := r.RequestStreams.Outgoing.OpenStream(node); stream != nil {
		return stream
	}
	return nil
}

// OpenWebSocketStream opens a multiplexed stream to the node for a resumable WebSocket. It may wait for a new mux
// session until ctx ends. It returns nil if no stream could be opened.
func (r *Router) OpenWebSocketStream(ctx context.Context, node string) net.Conn {
	if stream := r.WebSocketStreams.Outgoing.OpenStreamWait(ctx, node); stream != nil {
		return stream
	}
	return nil
}
