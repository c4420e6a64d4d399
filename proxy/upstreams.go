package proxy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"shardway/proxy/connpool"
	"shardway/proxy/metrics"
	"shardway/proxy/procpool"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// upstreams contains the pools of connections to the app and to other nodes. Any goroutine may use
// it.
type upstreams struct {
	apps []*connpool.Pool // by app instance; nil for an instance that is not configured, empty in a gateway and with processes
	// nextKeyless is the number of requests without a key so far. They use the instances in turn.
	nextKeyless atomic.Uint32
	// instanceRequests are the numbers of requests that were sent to each app instance. They are not counted
	// for a node with one instance.
	instanceRequests [shardmap.MaxInstances]atomic.Uint64
	processes        *procpool.Pools // connections to the processes of the app; nil without Options.Processes
	peers            connpool.Peers
	longLived        connpool.LongLivedLimit // limit of upgraded connections and long responses
	dials            sync.WaitGroup          // counts dials in progress
	// dialCtx ends in close. Its end cancels all dials.
	dialCtx     context.Context //nolint:containedctx // lives as long as the Server
	cancelDials context.CancelFunc
}

// dialApp opens a connection to an app instance.
type dialApp func(context.Context) (*connpool.Conn, error)

// init creates the pools. poolOptions contains the clock, the pacer and the queues of all pools. dialApps
// dial the app instances; none means a gateway.
func (upstreams *upstreams) init(options *Options, poolOptions connpool.Options, dialer *dialer, dialApps []dialApp) {
	upstreams.longLived.Max = int64(options.MaxStreams)
	upstreams.dialCtx, upstreams.cancelDials = context.WithCancel(context.Background())
	poolOptions.Life, poolOptions.Dialers, poolOptions.LongLived = upstreams.dialCtx, &upstreams.dials, &upstreams.longLived
	upstreams.peers.NewPool = func(node string) *connpool.Pool {
		nodeOptions := poolOptions
		nodeOptions.Node, nodeOptions.MaxIdle = node, options.PeerConns
		nodeOptions.Dial = func(ctx context.Context) (*connpool.Conn, error) { return dialer.dialPeer(ctx, node) }
		nodeOptions.OpenStream = func() *connpool.Conn { return dialer.openStream(node) }
		nodeOptions.OpenWebSocketStream = func(ctx context.Context) *connpool.Conn { return dialer.openWebSocketStream(ctx, node) }
		return connpool.New(nodeOptions)
	}
	appOptions := poolOptions
	appOptions.MaxConns = options.MaxUpstreamConns
	appOptions.MaxShardConns = max(options.MaxShardConns, 0) // a negative value means no limit
	appOptions.CheckBeforeReuse = true
	if options.Processes != nil {
		upstreams.initProcesses(options.Processes, dialer, appOptions)
		return
	}
	for instance, dial := range dialApps {
		if dial == nil {
			upstreams.apps = append(upstreams.apps, nil)
			continue
		}
		appOptions.Dial, appOptions.Instance = dial, uint8(instance)
		upstreams.apps = append(upstreams.apps, connpool.New(appOptions))
	}
}

// isGateway reports whether this node has no app.
func (upstreams *upstreams) isGateway() bool {
	return len(upstreams.apps) == 0 && upstreams.processes == nil
}

// hasInstances reports whether this node has several app instances.
func (upstreams *upstreams) hasInstances() bool { return len(upstreams.apps) > 1 }

// app returns the pool of connections to an app instance; nil means that it is not configured.
func (upstreams *upstreams) app(instance uint8) *connpool.Pool {
	if int(instance) >= len(upstreams.apps) {
		return nil
	}
	return upstreams.apps[instance]
}

// eachApp calls f for the pool of each app instance.
func (upstreams *upstreams) eachApp(f func(*connpool.Pool)) {
	for _, pool := range upstreams.apps {
		if pool != nil {
			f(pool)
		}
	}
}

// instanceValues returns the values of each app instance for metrics. The result is empty if the node has one
// instance.
func (upstreams *upstreams) instanceValues() (values []metrics.InstanceValues) {
	if !upstreams.hasInstances() {
		return nil
	}
	for i, pool := range upstreams.apps {
		if pool == nil {
			continue
		}
		values = append(values, metrics.InstanceValues{
			Number: shardmap.Instance(i).Number(), Conns: pool.OpenConns(), InFlight: pool.InUse(), Requests: upstreams.instanceRequests[i].Load(),
		})
	}
	return values
}

// keylessInstance returns the app instance for a request without a key. Healthy instances that accept
// connections get such requests in turn. isHealthy nil means that all instances are healthy.
func (upstreams *upstreams) keylessInstance(isHealthy func(instance int) bool) uint8 {
	if !upstreams.hasInstances() {
		return 0
	}
	var usable [shardmap.MaxInstances]uint8
	usableCount, fallback := uint32(0), uint8(0)
	for instance, pool := range upstreams.apps {
		if pool == nil {
			continue
		}
		fallback = uint8(instance)
		if (isHealthy == nil || isHealthy(instance)) && !pool.Breaker.IsTripped() {
			usable[usableCount] = uint8(instance)
			usableCount++
		}
	}
	if usableCount > 0 {
		return usable[upstreams.nextKeyless.Add(1)%usableCount]
	}
	return fallback
}

// poolFor returns the pool of the destination of a shard according to table. It returns nil if no node
// serves the shard.
func (upstreams *upstreams) poolFor(shard shardmap.Shard, table *route.Table) *connpool.Pool {
	if int(shard) >= table.Shards() {
		return nil
	}
	switch dest := table.Route(shard); dest.Kind {
	case route.Local:
		return upstreams.app(dest.Instance)
	case route.Remote:
		return upstreams.peers.Pool(dest.Node)
	case route.Held:
	}
	return nil
}

// recheckWaiters makes each request that waits for a connection check that table still routes its
// shard to that destination.
func (upstreams *upstreams) recheckWaiters(table *route.Table) {
	upstreams.eachApp(func(pool *connpool.Pool) { pool.RecheckWaiters(table) })
	if upstreams.processes != nil {
		upstreams.processes.RecheckWaiters(table)
	}
	upstreams.peers.Each(func(peerPool *connpool.Pool) { peerPool.RecheckWaiters(table) })
}

// renewApps closes the idle connections to all app instances. Connections in use are closed after their
// request.
func (upstreams *upstreams) renewApps() {
	upstreams.eachApp((*connpool.Pool).Renew)
	if upstreams.processes != nil {
		upstreams.processes.Renew()
	}
}

// closeIdleOlderThan closes the connections that have been idle for longer than age. keepApp keeps one
// connection to each app instance.
func (upstreams *upstreams) closeIdleOlderThan(age time.Duration, keepApp bool) {
	upstreams.eachApp(func(pool *connpool.Pool) { pool.CloseIdleOlderThan(age, keepApp) })
	if upstreams.processes != nil {
		upstreams.processes.CloseIdleOlderThan(age)
	}
	upstreams.peers.CloseIdleOlderThan(age)
}

// close closes the idle connections, cancels the dials in progress, and waits for their end.
func (upstreams *upstreams) close() {
	upstreams.eachApp((*connpool.Pool).Close)
	if upstreams.processes != nil {
		upstreams.processes.CloseAll()
	}
	upstreams.peers.Close()
	upstreams.cancelDials()
	upstreams.dials.Wait()
}
