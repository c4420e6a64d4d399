package proxy

import (
	"context"
	"sync"
	"time"

	"shardway/proxy/connpool"
	"shardway/proxy/procpool"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// upstreams contains the pools of connections to the app and to other nodes. Any goroutine may use
// it.
type upstreams struct {
	app       *connpool.Pool  // connections to the app; nil in a gateway and with processes
	processes *procpool.Pools // connections to the processes of the app; nil if one app serves all shards
	peers     connpool.Peers
	longLived connpool.LongLivedLimit // limit of upgraded connections and long responses
	dials     sync.WaitGroup          // counts dials in progress
	// dialCtx ends in close. Its end cancels all dials.
	dialCtx     context.Context //nolint:containedctx // lives as long as the Server
	cancelDials context.CancelFunc
}

// init creates the pools. poolOptions contains the clock, the pacer and the queues of all pools. dialApp
// dials the app; nil means a gateway.
func (upstreams *upstreams) init(options *Options, poolOptions connpool.Options, dialer *dialer, dialApp func(context.Context) (*connpool.Conn, error)) {
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
	appOptions.Dial = dialApp
	appOptions.MaxConns = options.MaxUpstreamConns
	appOptions.MaxShardConns = max(options.MaxShardConns, 0) // a negative value means no limit
	appOptions.CheckBeforeReuse = true
	switch {
	case options.Processes != nil:
		upstreams.initProcesses(options.Processes, dialer, appOptions)
	case dialApp != nil:
		upstreams.app = connpool.New(appOptions)
	}
}

// isGateway reports whether this node has no app.
func (upstreams *upstreams) isGateway() bool {
	return upstreams.app == nil && upstreams.processes == nil
}

// poolFor returns the pool of the destination of a shard according to table. It returns nil if no node
// serves the shard.
func (upstreams *upstreams) poolFor(shard shardmap.Shard, table *route.Table) *connpool.Pool {
	if int(shard) >= table.Shards() {
		return nil
	}
	switch dest := table.Route(shard); dest.Kind {
	case route.Local:
		return upstreams.app
	case route.Remote:
		return upstreams.peers.Pool(dest.Node)
	case route.Held:
	}
	return nil
}

// recheckWaiters makes each request that waits for a connection check that table still routes its
// shard to that destination.
func (upstreams *upstreams) recheckWaiters(table *route.Table) {
	if upstreams.app != nil {
		upstreams.app.RecheckWaiters(table)
	}
	if upstreams.processes != nil {
		upstreams.processes.RecheckWaiters(table)
	}
	upstreams.peers.Each(func(peerPool *connpool.Pool) { peerPool.RecheckWaiters(table) })
}

// renewApp closes the idle connections to the app. Connections in use are closed after their request.
func (upstreams *upstreams) renewApp() {
	if upstreams.app != nil {
		upstreams.app.Renew()
	}
	if upstreams.processes != nil {
		upstreams.processes.Renew()
	}
}

// closeIdleOlderThan closes the connections that have been idle for longer than age. keepApp keeps one
// connection to the app.
func (upstreams *upstreams) closeIdleOlderThan(age time.Duration, keepApp bool) {
	if upstreams.app != nil {
		upstreams.app.CloseIdleOlderThan(age, keepApp)
	}
	if upstreams.processes != nil {
		upstreams.processes.CloseIdleOlderThan(age)
	}
	upstreams.peers.CloseIdleOlderThan(age)
}

// close closes the idle connections, cancels the dials in progress, and waits for their end.
func (upstreams *upstreams) close() {
	if upstreams.app != nil {
		upstreams.app.Close()
	}
	if upstreams.processes != nil {
		upstreams.processes.CloseAll()
	}
	upstreams.peers.Close()
	upstreams.cancelDials()
	upstreams.dials.Wait()
}
