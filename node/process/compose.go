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
	"shardway/node"
	"shardway/node/apphealth"
	"shardway/node/disk"
	"shardway/node/gossip"
	"shardway/node/hooks"
	"shardway/proxy"
	"shardway/proxy/shardkey"
	"shardway/queue"
)

// New opens the data directory and the ports, and builds the node. version is the version of the
// program.
func New(ctx context.Context, c *config.Config, version string, log zerolog.Logger) (*Process, error) {
	return NewWith(ctx, c, version, log, nil)
}

// App is an app in this process.
type App struct {
	Handler fasthttp.RequestHandler
	Streams bool            // see proxy.Options.HandlerStreams
	Overdue func(why error) // see node.Options
	// Hook calls a hook of the app. nil means that the app has no hooks.
	Hook func(ctx context.Context, call agent.HookCall) agent.HookResult
}

// NewWith is New for a node with an app in this process; c must contain the corresponding
// settings. nil means no such app.
func NewWith(ctx context.Context, c *config.Config, version string, log zerolog.Logger, app *App) (_ *Process, err error) {
	p := &Process{log: log, initial: c, applied: c}
	p.accessLogs.log = log
	p.reloadStatus.record(nil)
	if p.credentials, err = loadCredentials(c, log); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.listeners.close()
		}
	}()
	first, err := p.prepare(c)
	if err != nil {
		return nil, err
	}
	// Resolve names and open the data directory before the ports. Resolving can be slow or be
	// cancelled, and the disk can be full. Closing an open port would reset client connections.
	o, err := nodeOptions(ctx, c, log)
	if err != nil {
		return nil, err
	}
	if o.Dir, err = disk.Open(c.Data, c.Node); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeIfOpen(o.Self), o.Dir.Close())
		}
	}()
	log = withIDs(log, o.Dir)
	p.log, p.credentials.log, p.accessLogs.log, o.Log = log, log, log, log
	warnIfDirWasOpen(c.Data, o.Dir.Access(), log)
	o.Self = listenLocal(ctx, c.Data, log)
	if err = p.listeners.open(ctx, c); err != nil {
		return nil, err
	}
	p.appPort = newTLSListener(p.listeners.app, first.cert, log)
	p.credentials.shareTickets(p.appPort)
	p.accessLogs.replace(first.accessPath, first.accessFile) //nolint:contextcheck // the log ends with the process, not with ctx
	p.lameDuck.Store(int64(c.LameDuck))
	o.Version = version
	o.Hooks = appHooks(c, o.Proxy.DialUpstream, o.Dir.Disk())
	if app != nil {
		o.Proxy.Handler, o.Proxy.HandlerStreams, o.Overdue = app.Handler, app.Streams, app.Overdue
		if app.Hook != nil {
			o.Hooks = &hooks.Func{Call: app.Hook, Log: log}
		}
	}
	o.App, o.Peer = p.appPort, p.listeners.peer
	o.Proxy.Settings, o.Keys = first.proxySettings, first.keys
	o.LameDuck = func() time.Duration { return time.Duration(p.lameDuck.Load()) }
	o.Exposed = p.exposures
	if err = p.credentials.applyTo(&o); err != nil {
		return nil, err
	}
	if p.node, err = node.New(o); err != nil { //nolint:contextcheck // a check for a crash ends with the node
		return nil, err
	}
	metrics := prometheus.NewRegistry()
	if err = p.Register(metrics); err != nil {
		return nil, err
	}
	p.admin = admin.New(admin.Options{API: p.node.AdminAPI(), Metrics: metrics, Events: p.node.Events(), Access: p.credentials.access, Log: log})
	p.listeners.admin = p.credentials.wrapAdmin(p.listeners.admin)
	return p, nil
}

// warnIfDirWasOpen logs a warning if other users had access to the data directory, and whether
// this has been corrected.
func warnIfDirWasOpen(path string, o disk.DirAccess, log zerolog.Logger) {
	switch {
	case o.Mode == 0:
	case o.Removed:
		log.Warn().Str("data", path).Stringer("mode", o.Mode).Msg("data directory permissions restricted to owner")
	default:
		log.Warn().Str("data", path).Stringer("mode", o.Mode).Str("remedy", "chmod 700, or name a directory below it with --data").
			Msg("data directory accessible to all users")
	}
}

// open opens all configured ports.
func (l *listeners) open(ctx context.Context, c *config.Config) error {
	for _, x := range []struct {
		flag, addr string
		ln         *net.Listener
	}{{"listen", c.Listen, &l.app}, {"peer", c.Peer, &l.peer}, {"admin", c.Admin, &l.admin}, {"probes", c.Probes, &l.probes}} {
		if x.addr == "" {
			continue
		}
		ln, err := listen(ctx, x.flag, x.addr)
		if err != nil {
			return err
		}
		if x.ln == &l.admin || x.ln == &l.probes {
			ln = connlimit.NewListener(ln)
		}
		*x.ln = ln
	}
	return nil
}

// nodeOptions converts the settings to options of a node, except those that need an open file or
// port.
func nodeOptions(ctx context.Context, c *config.Config, log zerolog.Logger) (node.Options, error) {
	announced, err := announcedEndpoints(ctx, c)
	if err != nil {
		return node.Options{}, err
	}
	proxyOpts, err := proxyOptions(c)
	if err != nil {
		return node.Options{}, err
	}
	o := node.Options{
		Shards: c.Shards, Weight: uint32(c.Weight), Zone: c.Zone, AppVersion: c.AppVersion, Gateway: c.Gateway(),
		MaxVoters: c.MaxVoters, BootstrapExpect: c.BootstrapExpect, FoundsAlone: c.BootstrapExpect == 1 && c.Origin("bootstrap-expect") != config.OriginDefault, Join: c.Join, Endpoints: announced,
		RemoveDeadAfter: c.RemoveDeadAfter, FinalizeAfter: c.FinalizeAfter, ShutdownTimeout: c.ShutdownTimeout,
		Timing:     clusterTiming(c),
		Pace:       ack.Pace{Heartbeat: c.Heartbeat, DrainTimeout: c.DrainTimeout, RestartGrace: c.RestartGrace},
		GossipBind: c.Gossip, GossipAdvertise: c.GossipAdvertise,
		Queue: queue.Options{Requests: c.QueueRequests, Bytes: c.QueueBytes, Wait: c.QueueWait, CPUUsage: clock.CPUTimeAndPreemptions},
		Proxy: proxyOpts, Clock: clock.New(), Log: log,
		ReleaseTimeout: c.ReleaseTimeout, AcquireTimeout: c.AcquireTimeout,
		Settings: c.ClusterSettings(),
	}
	o.AfterRestart = c.Returns == config.ReturnsAfterRestart && !c.HasHooks() && !c.Gateway()
	if c.OnShutdown == config.OnShutdownHold {
		o.HoldGrace = c.HoldGrace
	}
	if c.Upstream != "" {
		instance := &appInstance{}
		o.CheckApp, o.AppInstance, o.Health = appChecker(proxyOpts.DialUpstream, c.UpstreamAddress(), c.Health, instance), instance.get, healthOptions(c)
	}
	return o, nil
}

// healthOptions converts the settings of the health check.
func healthOptions(c *config.Config) apphealth.Settings {
	h := apphealth.Settings{Interval: c.HealthInterval, Timeout: c.HealthTimeout, Fall: c.HealthFall, Rise: c.HealthRise}
	if c.OnShutdown == config.OnShutdownHold {
		h.Hold = c.HoldGrace
	}
	return h
}

// clusterTiming returns the timing of a cluster that this node bootstraps. Parsing cannot fail,
// because the settings have been validated.
func clusterTiming(c *config.Config) ack.Timing {
	takeover, _ := ack.ParseTakeover(string(c.Takeover))
	mode, _ := ack.ParseRebalanceMode(string(c.RebalanceMode))
	return ack.Timing{Lease: c.Lease, DeadAfter: c.DeadAfter, Takeover: takeover, RebalanceMode: mode}
}

// proxyOptions converts the settings of the proxy.
func proxyOptions(c *config.Config) (proxy.Options, error) {
	set, err := proxySettings(c)
	if err != nil {
		return proxy.Options{}, err
	}
	o := proxy.Options{
		MaxUpstreamConns: c.MaxUpstreamConns, MaxShardConns: c.MaxShardConns, MaxStreams: c.MaxStreams, BodyBuffer: int(c.BodyBuffer), MaxConns: c.MaxConns, Settings: set,
		ResumeTimeout: c.WebSocketResumeTimeout, DrainTimeout: c.DrainTimeout, ReconnectSpread: c.ShutdownTimeout / 2,
	}
	o.Disable = proxy.Optimizations{
		EventLoop: c.Disables(config.EventLoop), Multiplexing: c.Disables(config.Multiplexing), Parking: c.Disables(config.Parking), Splice: c.Disables(config.Splice),
	}
	if c.Upstream != "" {
		o.DialUpstream, err = proxy.DialURL(c.Upstream)
	}
	if h := c.HooksAddress(); !h.HasSeparateAddress() {
		o.HookPath = h.Path
	}
	return o, err
}

// proxySettings converts the settings that a reload can change in a running proxy.
func proxySettings(c *config.Config) (proxy.Settings, error) {
	keys, err := shardkey.New(shardkey.Spec{Sources: c.Keys, Routes: c.KeyRoutes(), OnMissingKey: string(c.OnMissingKey)})
	if err != nil {
		return proxy.Settings{}, err
	}
	return proxy.Settings{
		Keys: keys, StreamGrace: negativeIfZero(c.StreamGrace), CloseSockets: c.WebSockets == config.WebSocketsClose,
		DebugHeaders: c.DebugHeaders, Forwarded: c.Forwarded, TrustedProxies: c.TrustedProxies, ProbePath: c.ProbePath,
		MaxHeaderBytes: int(c.MaxHeaderBytes), MaxHeaderBytesTotal: c.MaxHeaderBytesTotal, MaxBodyTotal: c.MaxBodyTotal, MaxHeaders: c.MaxHeaders, MaxURI: int(c.MaxURI), MaxBody: c.MaxBody, MaxShardInflight: c.MaxShardInflight,
		HeaderTimeout: c.HeaderTimeout, IdleTimeout: c.IdleTimeout, MinBodyRate: negativeIfZeroRate(c.MinBodyRate), ConnectTimeout: c.ConnectTimeout,
		FirstByteTimeout: negativeIfZero(c.FirstByteTimeout), UpstreamIdleTimeout: negativeIfZero(c.UpstreamIdleTimeout),
	}, nil
}

// negativeIfZeroRate is negativeIfZero for a rate.
func negativeIfZeroRate(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

// negativeIfZero converts a setting in which zero means "no limit" to an option of the proxy, in
// which a negative value means this and zero selects the default.
func negativeIfZero(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// announcedEndpoints returns the endpoints that the node announces. If a bind address has no host,
// the host of the peer port is used, because all nodes must be able to reach it.
func announcedEndpoints(ctx context.Context, c *config.Config) (map[string]string, error) {
	peer, err := gossip.Advertise(ctx, c.Peer, c.PeerAdvertise, c.Join, net.DefaultResolver)
	if err != nil {
		return nil, err
	}
	all := map[string]string{"peer": peer.String()}
	for name, bind := range map[string]string{"http": c.Listen, "admin": c.Admin} {
		addr, err := advertisedAddr(ctx, bind, peer.Addr())
		if err != nil {
			return nil, err
		}
		// Nodes on other machines cannot use a loopback address.
		if addr.Addr().IsLoopback() && !peer.Addr().IsLoopback() {
			continue
		}
		all[name] = addr.String()
	}
	for _, e := range c.Endpoints {
		all[e.Name] = e.Address
	}
	return all, nil
}

// advertisedAddr returns the address at which other nodes reach a bind address. host replaces an
// unspecified host.
func advertisedAddr(ctx context.Context, bind string, host netip.Addr) (netip.AddrPort, error) {
	h, port, err := net.SplitHostPort(bind)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if ip, err := netip.ParseAddr(h); h == "" || err == nil && ip.IsUnspecified() {
		bind = net.JoinHostPort(host.String(), port)
	}
	return gossip.Advertise(ctx, bind, "", nil, net.DefaultResolver)
}
