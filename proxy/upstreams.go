package proxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"shardway/proxy/connpool"
	"shardway/proxy/h1"
	"shardway/proxy/metrics"
	"shardway/proxy/procpool"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// upstreams contains the pools of connections to the app and to other nodes. Any goroutine may use
// it.
type upstreams struct {
	dialer dialer
	apps   []*connpool.Pool // by app instance; nil for an instance that is not configured, empty in a gateway and with processes
	// nextKeyless is the number of requests without a key so far. They use the instances in turn.
	nextKeyless atomic.Uint32
	// instanceRequests are the numbers of requests that were sent to each app instance. They are not counted
	// for a node with one instance.
	instanceRequests [shardmap.MaxInstances]atomic.Uint64
	processes        *procpool.Pools // connections to the processes of the app; nil if one app serves all shards
	peers            connpool.Peers
	longLived        connpool.LongLivedLimit // limit of upgraded connections and long responses
	dials            sync.WaitGroup          // counts dials in progress
	// dialCtx ends in close. Its end cancels all dials.
	dialCtx     context.Context //nolint:containedctx // lives as long as the Server
	cancelDials context.CancelFunc
}

// upstreamOptions configures upstreams.
type upstreamOptions struct {
	// network connects to the other nodes.
	network peerNetwork
	// dialApps connect to the app instances. None means a gateway, unless dialHandler or dialProcess is set.
	dialApps []dialApp
	// dialHandler makes a connection to an app in this process, which replaces dialApps; nil means none.
	dialHandler dialPool
	// dialProcess connects to a process of the app, which replaces dialApps. ended is closed when this
	// process has ended. nil means that one app serves all shards.
	dialProcess func(ctx context.Context, target procpool.Target) (conn net.Conn, ended <-chan struct{}, err error)
	// limits returns the limits in force. Any goroutine may call it.
	limits  func() *upstreamLimits
	buffers *h1.Buffers
	// disableMultiplexing means that no multiplexed streams are used.
	disableMultiplexing bool
	// pool contains the clock, the pacer and the queues of all pools.
	pool connpool.Options

	maxConns      int // connections to each app instance
	maxShardConns int // connections to the app that requests of one shard use; zero means no limit
	maxLongLived  int // upgraded connections and long responses
	maxIdlePeer   int // idle connections to each other node
}

// init creates the pools.
func (upstreams *upstreams) init(options upstreamOptions) {
	upstreams.dialer = dialer{
		network: options.network, dialApps: options.dialApps, limits: options.limits, buffers: options.buffers, multiplexes: !options.disableMultiplexing,
	}
	upstreams.longLived.Max = int64(options.maxLongLived)
	upstreams.dialCtx, upstreams.cancelDials = context.WithCancel(context.Background())
	pool := options.pool
	pool.Life, pool.Dialers, pool.LongLived = upstreams.dialCtx, &upstreams.dials, &upstreams.longLived
	upstreams.peers.NewPool = func(node string) *connpool.Pool {
		peerPool := pool
		peerPool.Node, peerPool.MaxIdle = node, options.maxIdlePeer
		peerPool.Dial = func(ctx context.Context) (*connpool.Conn, error) { return upstreams.dialer.dialPeer(ctx, node) }
		peerPool.OpenStream = func() *connpool.Conn { return upstreams.dialer.openStream(node) }
		peerPool.OpenWebSocketStream = func(ctx context.Context) *connpool.Conn { return upstreams.dialer.openWebSocketStream(ctx, node) }
		return connpool.New(peerPool)
	}
	appPool := pool
	appPool.MaxConns, appPool.MaxShardConns, appPool.CheckBeforeReuse = options.maxConns, options.maxShardConns, true
	if options.dialProcess != nil {
		upstreams.initProcesses(options.dialProcess, appPool)
		return
	}
	dialers := upstreams.dialer.appDialers()
	if options.dialHandler != nil {
		dialers = []dialPool{options.dialHandler}
	}
	for instance, dial := range dialers {
		if dial == nil {
			upstreams.apps = append(upstreams.apps, nil)
			continue
		}
		appPool.Dial, appPool.Instance = dial, uint8(instance)
		upstreams.apps = append(upstreams.apps, connpool.New(appPool))
	}
}

// initProcesses creates the pools of connections to the processes of the app.
func (upstreams *upstreams) initProcesses(dial func(context.Context, procpool.Target) (net.Conn, <-chan struct{}, error), pool connpool.Options) {
	upstreams.processes = procpool.New(procpool.Options{
		Dial: func(ctx context.Context, target procpool.Target) (*connpool.Conn, error) {
			conn, ended, err := dial(ctx, target)
			if err != nil {
				return nil, err
			}
			appConn := upstreams.dialer.newAppConn(conn, upstreams.dialer.limits())
			appConn.ProcessEnded = ended
			return appConn, nil
		},
		Pool: pool, Clock: pool.Clock,
	})
}

// dialProbe opens a connection to an app instance that carries no request. The instance must be configured.
func (upstreams *upstreams) dialProbe(instance uint8) (net.Conn, error) {
	return upstreams.dialer.dialProbe(upstreams.dialCtx, instance)
}

// isGateway reports whether this node has no app.
func (upstreams *upstreams) isGateway() bool {
	return len(upstreams.apps) == 0 && upstreams.processes == nil
}

// countRequest counts a request that is sent to an app instance of this node, which has several.
func (upstreams *upstreams) countRequest(instance uint8) { upstreams.instanceRequests[instance].Add(1) }

// openConns returns the number of open connections to the app, and whether this node has an app.
func (upstreams *upstreams) openConns() (conns int, hasApp bool) {
	if upstreams.processes != nil {
		return upstreams.processes.OpenConns(), true
	}
	upstreams.eachApp(func(pool *connpool.Pool) {
		hasApp = true
		conns += pool.OpenConns()
	})
	return conns, hasApp
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
