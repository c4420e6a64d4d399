package upstream

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

// Pools contains the pools of connections to the app and to other nodes. Any goroutine may use
// it, after Init.
type Pools struct {
	dialer dialer
	apps   []*connpool.Pool // by app instance; nil for an instance that is not configured, empty in a gateway and with processes
	// services are the app instances by the name of their service. nil means that all instances run the
	// only service. It never changes.
	services map[string]InstanceBits
	// nextKeyless counts requests without a key, which use the instances in turn.
	nextKeyless atomic.Uint32
	// instanceRequests are the numbers of requests that were sent to each app instance. They are not counted
	// for a node with one instance.
	instanceRequests [shardmap.MaxInstances]atomic.Uint64
	Processes        *procpool.Pools         // connections to the processes of the app; nil if one app serves all shards
	Peers            connpool.Peers          // connections to other nodes
	LongLived        connpool.LongLivedLimit // limit of upgraded connections and long responses
	dials            sync.WaitGroup          // counts dials in progress
	// dialCtx ends in Close. Its end cancels all dials.
	dialCtx     context.Context //nolint:containedctx // lives as long as the Pools
	cancelDials context.CancelFunc
}

// Options configures Pools.
type Options struct {
	// Network connects to the other nodes.
	Network Network
	// DialApps connect to the app instances. None means a gateway, unless DialHandler or DialProcess is set.
	DialApps []DialApp
	// Services contains the app instances of each service by its name. nil means that the node has one
	// service, which all instances run.
	Services map[string]InstanceBits
	// DialHandler makes a connection to an app in this process, which replaces DialApps; nil means none.
	DialHandler DialConn
	// DialProcess connects to a process of the app, which replaces DialApps. ended is closed when this
	// process has ended. nil means that one app serves all shards.
	DialProcess func(ctx context.Context, target procpool.Target) (conn net.Conn, ended <-chan struct{}, err error)
	// Limits returns the current limits. Any goroutine may call it.
	Limits  func() *Limits
	Buffers *h1.Buffers
	// DisableMultiplexing is set if no multiplexed streams are used.
	DisableMultiplexing bool
	// Pool contains the clock, the pacer and the queues of all pools.
	Pool connpool.Options

	MaxConns      int // connections to each app instance
	MaxShardConns int // connections to the app that requests of one shard use; zero means no limit
	MaxLongLived  int // upgraded connections and long responses
	MaxIdlePeer   int // idle connections to each other node
}

// Init creates the pools.
func (p *Pools) Init(options Options) {
	p.dialer = dialer{
		network: options.Network, dialApps: options.DialApps, limits: options.Limits, buffers: options.Buffers, multiplexes: !options.DisableMultiplexing,
	}
	p.services = options.Services
	p.LongLived.Max = int64(options.MaxLongLived)
	p.dialCtx, p.cancelDials = context.WithCancel(context.Background())
	pool := options.Pool
	pool.Life, pool.Dialers, pool.LongLived = p.dialCtx, &p.dials, &p.LongLived
	p.Peers.NewPool = func(node string) *connpool.Pool {
		peerPool := pool
		peerPool.Node, peerPool.MaxIdle = node, options.MaxIdlePeer
		peerPool.Dial = func(ctx context.Context) (*connpool.Conn, error) { return p.dialer.dialPeer(ctx, node) }
		peerPool.OpenStream = func() *connpool.Conn { return p.dialer.openStream(node) }
		peerPool.OpenWebSocketStream = func(ctx context.Context) *connpool.Conn { return p.dialer.openWebSocketStream(ctx, node) }
		return connpool.New(peerPool)
	}
	appPool := pool
	appPool.MaxConns, appPool.MaxShardConns, appPool.CheckBeforeReuse = options.MaxConns, options.MaxShardConns, true
	if options.DialProcess != nil {
		p.initProcesses(options.DialProcess, appPool)
		return
	}
	dialers := p.dialer.appDialers()
	if options.DialHandler != nil {
		dialers = []DialConn{options.DialHandler}
	}
	for instance, dial := range dialers {
		if dial == nil {
			p.apps = append(p.apps, nil)
			continue
		}
		appPool.Dial, appPool.Instance = dial, uint8(instance)
		p.apps = append(p.apps, connpool.New(appPool))
	}
}

// initProcesses creates the pools of connections to the processes of the app.
func (p *Pools) initProcesses(dial func(context.Context, procpool.Target) (net.Conn, <-chan struct{}, error), pool connpool.Options) {
	p.Processes = procpool.New(procpool.Options{
		Dial: func(ctx context.Context, target procpool.Target) (*connpool.Conn, error) {
			conn, ended, err := dial(ctx, target)
			if err != nil {
				return nil, err
			}
			appConn := p.dialer.newAppConn(conn, p.dialer.limits())
			appConn.ProcessEnded = ended
			return appConn, nil
		},
		Pool: pool, Clock: pool.Clock,
	})
}

// DialProbe opens a connection to an app instance that carries no request. The instance must be configured.
func (p *Pools) DialProbe(instance uint8) (net.Conn, error) {
	return p.dialer.dialProbe(p.dialCtx, instance)
}

// IsGateway reports whether this node has no app.
func (p *Pools) IsGateway() bool {
	return len(p.apps) == 0 && p.Processes == nil
}

// CountRequest counts a request sent to an app instance, if this node has several.
func (p *Pools) CountRequest(instance uint8) { p.instanceRequests[instance].Add(1) }

// OpenConns returns the number of open connections to the app, and whether this node has an app.
func (p *Pools) OpenConns() (conns int, hasApp bool) {
	if p.Processes != nil {
		return p.Processes.OpenConns(), true
	}
	p.eachApp(func(pool *connpool.Pool) {
		hasApp = true
		conns += pool.OpenConns()
	})
	return conns, hasApp
}

// HasInstances reports whether this node has several app instances.
func (p *Pools) HasInstances() bool { return len(p.apps) > 1 }

// App returns the pool of connections to an app instance; nil means that it is not configured.
func (p *Pools) App(instance uint8) *connpool.Pool {
	if int(instance) >= len(p.apps) {
		return nil
	}
	return p.apps[instance]
}

// eachApp calls f for the pool of each app instance.
func (p *Pools) eachApp(f func(*connpool.Pool)) {
	for _, pool := range p.apps {
		if pool != nil {
			f(pool)
		}
	}
}

// InstanceValues returns the values of each app instance for metrics. The result is empty if the node has one
// instance.
func (p *Pools) InstanceValues() (values []metrics.InstanceValues) {
	if !p.HasInstances() {
		return nil
	}
	for i, pool := range p.apps {
		if pool == nil {
			continue
		}
		values = append(values, metrics.InstanceValues{
			Number: shardmap.Instance(i).Number(), Service: p.serviceOf(uint8(i)), Conns: pool.OpenConns(), InFlight: pool.InUse(), Requests: p.instanceRequests[i].Load(),
		})
	}
	return values
}

// serviceOf returns the service that an app instance runs. It is empty without services.
func (p *Pools) serviceOf(instance uint8) string {
	for name, instances := range p.services {
		if instances.Has(instance) {
			return name
		}
	}
	return ""
}

// KeylessInstance returns the app instance for a request of a service without a key. Healthy instances that accept
// connections take turns. If isHealthy is nil, all instances count as healthy.
func (p *Pools) KeylessInstance(service string, isHealthy func(instance int) bool) uint8 {
	if !p.HasInstances() {
		return 0
	}
	instances := p.instancesOf(service)
	var usable [shardmap.MaxInstances]uint8
	usableCount, fallback := uint32(0), uint8(0)
	for instance, pool := range p.apps {
		if pool == nil || !instances.Has(uint8(instance)) {
			continue
		}
		fallback = uint8(instance)
		if (isHealthy == nil || isHealthy(instance)) && !pool.Breaker.IsTripped() {
			usable[usableCount] = uint8(instance)
			usableCount++
		}
	}
	if usableCount > 0 {
		return usable[p.nextKeyless.Add(1)%usableCount]
	}
	return fallback
}

// PoolFor returns the pool of the destination of a shard according to table. It returns nil if no node
// serves the shard.
func (p *Pools) PoolFor(shard shardmap.Shard, table *route.Table) *connpool.Pool {
	if int(shard) >= table.Shards() {
		return nil
	}
	switch dest := table.Route(shard); dest.Kind {
	case route.Local:
		return p.App(dest.Instance)
	case route.Remote:
		return p.Peers.Pool(dest.Node)
	case route.Queued:
	}
	return nil
}

// RecheckWaiters makes each request that waits for a connection check whether table still routes its shard to that
// destination.
func (p *Pools) RecheckWaiters(table *route.Table) {
	p.eachApp(func(pool *connpool.Pool) { pool.RecheckWaiters(table) })
	if p.Processes != nil {
		p.Processes.RecheckWaiters(table)
	}
	p.Peers.Each(func(peerPool *connpool.Pool) { peerPool.RecheckWaiters(table) })
}

// RenewApps closes the idle connections to all app instances. Connections in use are closed after their
// request.
func (p *Pools) RenewApps() {
	p.eachApp((*connpool.Pool).Renew)
	if p.Processes != nil {
		p.Processes.Renew()
	}
}

// CloseIdleOlderThan closes the connections that have been idle for longer than age. keepApp keeps one
// connection to each app instance.
func (p *Pools) CloseIdleOlderThan(age time.Duration, keepApp bool) {
	p.eachApp(func(pool *connpool.Pool) { pool.CloseIdleOlderThan(age, keepApp) })
	if p.Processes != nil {
		p.Processes.CloseIdleOlderThan(age)
	}
	p.Peers.CloseIdleOlderThan(age)
}

// Close closes the idle connections, cancels the dials in progress, and waits for them to end.
func (p *Pools) Close() {
	p.eachApp((*connpool.Pool).Close)
	if p.Processes != nil {
		p.Processes.CloseAll()
	}
	p.Peers.Close()
	p.cancelDials()
	p.dials.Wait()
}
