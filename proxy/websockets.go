package proxy

import (
	"hash/maphash"
	"math"
	"net"
	"sync/atomic"
	"time"

	"shardway/internal/coarsetime"
	"shardway/internal/netpoll"
	"shardway/proxy/connpool"
	"shardway/proxy/route"
	"shardway/proxy/sizehint"
	"shardway/proxy/upstream"
	"shardway/proxy/wsession"
	"shardway/proxy/wsrelay"
	"shardway/queue"
	"shardway/shardmap"
)

// webSockets is the state of all resumable WebSockets of a node. Any goroutine may use it.
type webSockets struct {
	// Set by init.

	clock         *coarsetime.Clock
	cluster       Cluster
	upstreams     *upstream.Pools
	tunnels       *atomic.Int64 // metrics.Metrics.Tunnels
	resumeTimeout time.Duration // Options.ResumeTimeout

	// Sessions without an upstream connection.

	queue     *queue.Queue // sessions that wait for a relay
	upgrades  atomic.Int32 // resumed WebSockets that await an upgrade response
	pacer     wsession.ReconnectPacer
	handovers wsession.HandoverPacer
	summary   wsession.HandoverSummary
	exclusive wsession.ExclusiveUse

	// Relays of sessions with an upstream connection.

	relays           wsrelay.Shared
	running          atomic.Int32                            // running relays
	parkedDirections atomic.Int32                            // parked directions of the running relays
	idleSockets      netpoll.Watcher                         // sockets of the parked directions
	probes           [shardmap.MaxInstances]wsrelay.AppProbe // by app instance

	replays wsrelay.ReplayMemory // first messages that later relays send again

	nonResumable sizehint.Predictor // paths whose WebSockets are not resumable
}

// init initializes the state. relays is the state shared by all relays, except for the fields that webSockets
// itself sets. dialProbe opens a connection to an app instance that carries no request.
func (sockets *webSockets) init(options *Options, upstreams *upstream.Pools, tunnels *atomic.Int64, relays wsrelay.Shared, dialProbe func(instance uint8) (net.Conn, error)) {
	sockets.clock, sockets.cluster, sockets.upstreams, sockets.tunnels = relays.Clock, options.Cluster, upstreams, tunnels
	sockets.resumeTimeout = options.ResumeTimeout
	sockets.queue = queue.New(queue.Options{
		Requests: options.MaxConns, Bytes: math.MaxInt64, Wait: 2 * maxResumeWaits * options.ResumeTimeout,
		Batch: resumeBatch, Pace: resumeInterval, FixedRate: true,
	})
	sockets.pacer = wsession.ReconnectPacer{
		TimeLimit: options.ResumeTimeout / 2, MeasureDelay: wsession.TimerDelay,
		OnLimitGrown: func() { upstreams.Peers.Each((*connpool.Pool).DialForUpgrades) },
	}
	sockets.handovers.MeasureDelay = wsession.TimerDelay
	relays.DrainTimeout, relays.ParkingDisabled = options.DrainTimeout, options.Disable.Parking
	relays.IdleSockets, relays.AppRefuses, relays.RouteChanged = &sockets.idleSockets, sockets.appRefuses, sockets.routeChanged
	sockets.relays = relays
	for instance := range sockets.probes {
		probe := &sockets.probes[instance]
		probe.ValidFor, probe.Dial = sweepEvery, func() (net.Conn, error) { return dialProbe(uint8(instance)) }
	}
	sockets.replays.Max = options.MaxReplayMemory
	sockets.nonResumable.SetSeed(maphash.MakeSeed())
}

// appRefuses reports whether an app instance of this node no longer accepts connections.
func (sockets *webSockets) appRefuses(instance uint8) bool {
	pool := sockets.upstreams.App(instance)
	if pool == nil || pool.Breaker.IsTripped() {
		return true
	}
	return sockets.probes[instance].Refuses()
}

// routeChanged reports whether the route of the shard, or its ownership epoch, differs from dest.
func (sockets *webSockets) routeChanged(shard shardmap.Shard, dest *route.Route) bool {
	table := sockets.cluster.Table()
	return int(shard) >= table.Shards() || *table.Route(shard) != *dest
}

// adjustRunning adds delta to the counts of running relays: 1 when a relay starts, and -1 when it ends.
func (sockets *webSockets) adjustRunning(run *webSocketRun, delta int32) {
	sockets.running.Add(delta)
	sockets.tunnels.Add(int64(delta))
	if run.load != nil {
		run.load.WebSockets.Add(delta)
	}
}
