package process

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/admin"
	"shardway/admin/connlimit"
	"shardway/config"
	"shardway/internal/clock"
	"shardway/internal/nodelabel"
	"shardway/node"
	"shardway/node/apphealth"
	"shardway/node/disk"
	"shardway/node/gossip"
	"shardway/node/hooks"
	"shardway/proxy"
	"shardway/proxy/keylimit"
	"shardway/queue"
)

// New opens the data directory and the ports, and builds the node. version is the version of the
// program.
func New(ctx context.Context, conf *config.Config, version string, log zerolog.Logger) (*Process, error) {
	return NewWith(ctx, conf, version, log, nil)
}

// App is an app in this process.
type App struct {
	Handler   fasthttp.RequestHandler
	Streams   bool            // see proxy.Options.HandlerStreams
	OnOverdue func(why error) // see node.Options
	// Hook calls a hook of the app. It is nil if the app has no hooks.
	Hook func(ctx context.Context, call agent.HookCall) agent.HookResult
}

// NewWith is like New, for a node whose app runs in this process, unless app is nil. conf must
// contain the corresponding settings.
func NewWith(ctx context.Context, conf *config.Config, version string, log zerolog.Logger, app *App) (_ *Process, err error) {
	p := &Process{log: log, initial: conf, applied: conf}
	p.accessLogs.log = log
	p.reloadStatus.record(nil)
	if p.credentials, err = loadCredentials(conf, log); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.listeners.close()
		}
	}()
	settings, err := p.prepare(conf)
	if err != nil {
		return nil, err
	}
	// Resolve names and open the data directory before the ports. Resolving can be slow or be
	// cancelled, and the disk can be full. Closing an open port would reset client connections.
	options, err := nodeOptions(ctx, conf, log)
	if err != nil {
		return nil, err
	}
	if options.Dir, err = disk.Open(conf.Data, conf.Node); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeIfOpen(options.Self), options.Dir.Close())
		}
	}()
	log = withIDs(log, options.Dir)
	p.log, p.credentials.log, p.accessLogs.log, options.Log = log, log, log, log
	warnIfDirWasAccessible(conf.Data, options.Dir.Access(), log)
	options.Self = listenLocal(ctx, conf.Data, log)
	if err = p.listeners.open(ctx, conf); err != nil {
		return nil, err
	}
	p.appPort = newTLSListener(p.listeners.app, settings.cert, log)
	p.credentials.shareTickets(p.appPort)
	p.accessLogs.replace(settings.accessPath, settings.accessFile) //nolint:contextcheck // the log ends with the process, not with ctx
	p.lameDuck.Store(int64(conf.LameDuck))
	options.Version = version
	apps, err := numberInstances(&options, conf)
	if err != nil {
		return nil, err
	}
	options.Hooks = appHooks(conf, apps, &options)
	if app != nil {
		app.applyTo(&options)
	}
	if err = applyExec(conf, &options, log); err != nil {
		return nil, err
	}
	options.App, options.Peer = p.appPort, p.listeners.peer
	options.Proxy.Settings, options.Keys = settings.proxySettings, settings.keys
	options.LameDuck = func() time.Duration { return time.Duration(p.lameDuck.Load()) }
	options.Exposed = p.exposures
	if err = p.credentials.applyTo(&options); err != nil {
		return nil, err
	}
	if p.node, err = node.New(options); err != nil { //nolint:contextcheck // a check for a crash ends with the node
		return nil, err
	}
	if err = p.newAdmin(); err != nil {
		return nil, err
	}
	return p, nil
}

// newAdmin creates the admin server, and adds TLS to its port. The node must exist.
func (p *Process) newAdmin() error {
	metrics := prometheus.NewRegistry()
	if err := p.Register(metrics); err != nil {
		return err
	}
	p.admin = admin.New(admin.Options{API: p.node.AdminAPI(), Metrics: metrics, Events: p.node.Events(), Access: p.credentials.adminAccess, Log: p.log})
	p.listeners.admin = p.credentials.wrapAdmin(p.listeners.admin)
	return nil
}

// applyTo sets the options of a node whose app runs in this process.
func (a *App) applyTo(options *node.Options) {
	options.Proxy.Handler, options.Proxy.HandlerStreams, options.Overdue = a.Handler, a.Streams, a.OnOverdue
	if a.Hook != nil {
		options.Hooks = &hooks.Func{Call: a.Hook, Log: options.Log}
	}
}

// warnIfDirWasAccessible logs a warning if other users had access to the data directory, and whether
// this has been corrected.
func warnIfDirWasAccessible(path string, access disk.DirAccess, log zerolog.Logger) {
	switch {
	case access.Mode == 0:
	case access.Removed:
		log.Warn().Str("data", path).Stringer("mode", access.Mode).Msg("data directory permissions restricted to owner")
	default:
		log.Warn().Str("data", path).Stringer("mode", access.Mode).Str("remedy", "chmod 700, or name a directory below it with --data").
			Msg("data directory accessible to all users")
	}
}

// open opens all configured ports.
func (l *listeners) open(ctx context.Context, conf *config.Config) error {
	for _, port := range []struct {
		flag, addr  string
		limitsConns bool
		target      *net.Listener
	}{
		{"listen", conf.Listen, false, &l.app},
		{"peer", conf.Peer, false, &l.peer},
		{"admin", conf.Admin, true, &l.admin},
		{"probes", conf.Probes, true, &l.probes},
	} {
		if port.addr == "" {
			continue
		}
		ln, err := listen(ctx, port.flag, port.addr)
		if err != nil {
			return err
		}
		if port.limitsConns {
			ln = connlimit.NewListener(ln)
		}
		*port.target = ln
	}
	return nil
}

// nodeOptions converts the settings to node options, except those that need an open file or port.
func nodeOptions(ctx context.Context, conf *config.Config, log zerolog.Logger) (node.Options, error) {
	endpoints, err := announcedEndpoints(ctx, conf)
	if err != nil {
		return node.Options{}, err
	}
	proxyOpts, err := proxyOptions(conf)
	if err != nil {
		return node.Options{}, err
	}
	meta, err := nodelabel.ParseMeta(conf.Meta)
	if err != nil {
		return node.Options{}, err
	}
	isExpectSet := conf.Origin("bootstrap-expect") != config.OriginDefault
	options := node.Options{
		Shards: conf.ShardCount(), Services: serviceSpecs(conf), Replicas: conf.StandbyCounts(), SpreadZones: conf.SpreadZones, Weight: uint32(conf.Weight), Zone: conf.Zone, Region: conf.Region, Roles: conf.Roles, Meta: meta, AppVersion: conf.AppVersion, Gateway: conf.Gateway(),
		MaxVoters: conf.MaxVoters, BootstrapExpect: conf.BootstrapExpect, FoundsAlone: isExpectSet && conf.BootstrapExpect == 1, Join: conf.Join, Endpoints: endpoints,
		ManualJoins: conf.JoinApproval == config.JoinManual, JoinTimeout: conf.JoinTimeout,
		RaftTimeout: conf.RaftTimeout, RemoveDeadAfter: conf.RemoveDeadAfter, FinalizeAfter: conf.FinalizeAfter, Registry: conf.Registry, ShutdownTimeout: conf.ShutdownTimeout,
		Timing:     clusterTiming(conf),
		Pace:       ack.Pace{Heartbeat: conf.Heartbeat, DrainTimeout: conf.DrainTimeout, RestartGrace: conf.RestartGrace},
		GossipBind: conf.Gossip, GossipAdvertise: conf.GossipAdvertise,
		Queue: queue.Options{Requests: conf.QueueRequests, Bytes: conf.QueueBytes, Wait: conf.QueueWait, CPUUsage: clock.CPUTimeAndPreemptions},
		Proxy: proxyOpts, Clock: clock.New(), Log: log,
		ReleaseTimeout: conf.ReleaseTimeout, AcquireTimeout: conf.AcquireTimeout,
		Settings: conf.ClusterSettings(), Webhook: conf.Webhook,
	}
	options.AfterRestart = conf.Returns == config.ReturnsAfterRestart && !conf.HasHooks() && !conf.Gateway()
	if conf.OnShutdown == config.OnShutdownHold {
		options.HoldGrace = conf.HoldGrace
	}
	if apps := appsOf(conf); len(apps) > 0 {
		options.Health = healthOptions(conf)
		first, err := newInstance(apps[0].conf, apps[0].url)
		if err != nil {
			return node.Options{}, err
		}
		first.setFirst(&options)
	}
	return options, nil
}

// healthOptions converts the settings of the health check.
func healthOptions(conf *config.Config) apphealth.Settings {
	settings := apphealth.Settings{Interval: conf.HealthInterval, Timeout: conf.HealthTimeout, Fall: conf.HealthFall, Rise: conf.HealthRise}
	if conf.OnShutdown == config.OnShutdownHold {
		settings.Hold = conf.HoldGrace
	}
	return settings
}

// clusterTiming returns the timing of a cluster that this node bootstraps. Parsing cannot fail,
// because the settings have been validated.
func clusterTiming(conf *config.Config) ack.Timing {
	takeover, _ := ack.ParseTakeover(string(conf.Takeover))
	mode, _ := ack.ParseRebalanceMode(string(conf.RebalanceMode))
	return ack.Timing{Lease: conf.Lease, DeadAfter: conf.DeadAfter, Takeover: takeover, RebalanceMode: mode}
}

// proxyOptions converts the settings of the proxy.
func proxyOptions(conf *config.Config) (proxy.Options, error) {
	settings, err := proxySettings(conf)
	if err != nil {
		return proxy.Options{}, err
	}
	options := proxy.Options{
		MaxUpstreamConns: conf.MaxUpstreamConns, MaxShardConns: conf.MaxShardConns, MaxStreams: conf.MaxStreams, BodyBuffer: int(conf.BodyBuffer), MaxConns: conf.MaxConns, Settings: settings,
		ResumeTimeout: conf.WebSocketResumeTimeout, DrainTimeout: conf.DrainTimeout, ReconnectSpread: conf.ShutdownTimeout / 2,
	}
	options.Disable = proxy.Optimizations{
		EventLoop: conf.Disables(config.EventLoop), Multiplexing: conf.Disables(config.Multiplexing), Parking: conf.Disables(config.Parking), Splice: conf.Disables(config.Splice),
	}
	if paths := hookPaths(conf); len(paths) > 0 {
		options.HookPath, options.FurtherHookPaths = paths[0], paths[1:]
	}
	return options, nil
}

// proxySettings converts the settings that a reload can change in a running proxy.
func proxySettings(conf *config.Config) (proxy.Settings, error) {
	cookie, err := config.ParseCookie(conf.Cookie)
	if err != nil {
		return proxy.Settings{}, err
	}
	keys, err := proxyKeys(conf)
	if err != nil {
		return proxy.Settings{}, err
	}
	keyLimit, err := proxyKeyLimit(conf.KeyLimit)
	if err != nil {
		return proxy.Settings{}, err
	}
	routes, err := proxyRoutes(conf)
	if err != nil {
		return proxy.Settings{}, err
	}
	services, err := proxyServices(conf)
	if err != nil {
		return proxy.Settings{}, err
	}
	return proxy.Settings{
		Services: services, Routes: routes,
		Headers: conf.Headers,
		Keys:    keys, StickyCookie: cookie, StreamGrace: unlimitedIfZero(conf.StreamGrace), CloseSockets: conf.WebSockets == config.WebSocketsClose,
		DebugHeaders: conf.DebugHeaders, Forwarded: conf.Forwarded, TrustedProxies: conf.TrustedProxies, ProbePath: conf.ProbePath,
		MaxHeaderBytes: int(conf.MaxHeaderBytes), MaxHeaderBytesTotal: conf.MaxHeaderBytesTotal, MaxBodyTotal: conf.MaxBodyTotal, MaxHeaders: conf.MaxHeaders, MaxURI: int(conf.MaxURI), MaxBody: conf.MaxBody, MaxShardInflight: conf.MaxShardInflight, ShardQueue: conf.ShardQueue, MaxKeyInflight: conf.MaxKeyInflight, KeyLimit: keyLimit,
		HeaderTimeout: conf.HeaderTimeout, IdleTimeout: conf.IdleTimeout, MinBodyRate: unlimitedRateIfZero(conf.MinBodyRate), ConnectTimeout: conf.ConnectTimeout,
		FirstByteTimeout: unlimitedIfZero(conf.FirstByteTimeout), UpstreamIdleTimeout: unlimitedIfZero(conf.UpstreamIdleTimeout), TotalTimeout: conf.TotalTimeout,
	}, nil
}

// proxyRoutes converts the settings of the routes. The result is nil if the routes have only key sources.
func proxyRoutes(conf *config.Config) ([]proxy.Route, error) {
	if !conf.HasRouteSettings() {
		return nil, nil
	}
	routes := make([]proxy.Route, len(conf.Routes))
	for i := range conf.Routes {
		route := &conf.Routes[i]
		routes[i].Prefix, routes[i].Headers = route.Prefix, route.Headers
		if limit, isSet := route.FirstByteLimit(); isSet {
			routes[i].FirstByteTimeout = unlimitedIfZero(limit)
		}
		if limit, isSet := route.UpstreamIdleLimit(); isSet {
			routes[i].UpstreamIdleTimeout = unlimitedIfZero(limit)
		}
		if limit, isSet := route.TotalLimit(); isSet {
			routes[i].TotalTimeout = unlimitedIfZero(limit)
		}
		if route.KeyLimit == "" {
			continue
		}
		limit, err := proxyKeyLimit(route.KeyLimit)
		if err != nil {
			return nil, err
		}
		routes[i].KeyLimit = &limit
	}
	return routes, nil
}

// proxyKeyLimit converts the text of a key limit.
func proxyKeyLimit(text string) (keylimit.Limit, error) {
	limit, err := config.ParseKeyLimit(text)
	return keylimit.Limit(limit), err
}

// unlimitedRateIfZero maps 0 (no limit) to -1, which the proxy treats as unlimited.
func unlimitedRateIfZero(rate int64) int64 {
	if rate == 0 {
		return -1
	}
	return rate
}

// unlimitedIfZero maps 0 (no limit) to -1, because the proxy uses negative for "no limit" and zero for
// "use the default".
func unlimitedIfZero(limit time.Duration) time.Duration {
	if limit == 0 {
		return -1
	}
	return limit
}

// announcedEndpoints returns the endpoints that the node announces. If a bind address has no host,
// the host of the peer port is used, because all nodes must be able to reach it.
func announcedEndpoints(ctx context.Context, conf *config.Config) (map[string]string, error) {
	peer, err := gossip.Advertise(ctx, conf.Peer, conf.PeerAdvertise, conf.Join, net.DefaultResolver)
	if err != nil {
		return nil, err
	}
	endpoints := map[string]string{"peer": peer.String()}
	for name, bind := range map[string]string{"http": conf.Listen, "admin": conf.Admin} {
		addr, err := announcedAddr(ctx, bind, peer.Addr())
		if err != nil {
			return nil, err
		}
		// Nodes on other machines cannot use a loopback address.
		if addr.Addr().IsLoopback() && !peer.Addr().IsLoopback() {
			continue
		}
		endpoints[name] = addr.String()
	}
	for _, endpoint := range conf.Endpoints {
		endpoints[endpoint.Name] = endpoint.Address
	}
	return endpoints, nil
}

// announcedAddr returns the address that the node announces for a bind address. host replaces an
// unspecified host.
func announcedAddr(ctx context.Context, bind string, host netip.Addr) (netip.AddrPort, error) {
	bindHost, port, err := net.SplitHostPort(bind)
	if err != nil {
		return netip.AddrPort{}, err
	}
	ip, err := netip.ParseAddr(bindHost)
	if isUnspecified := bindHost == "" || err == nil && ip.IsUnspecified(); isUnspecified {
		bind = net.JoinHostPort(host.String(), port)
	}
	return gossip.Advertise(ctx, bind, "", nil, net.DefaultResolver)
}
