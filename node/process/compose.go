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
	"shardway/admin"
	"shardway/config"
	"shardway/internal/clock"
	"shardway/node"
	"shardway/node/disk"
	"shardway/node/gossip"
	"shardway/node/hooks"
	"shardway/proxy"
	"shardway/queue"
)

// New opens the data directory and the ports, and builds the node. Version is
// the program's.
func New(ctx context.Context, c *config.Config, version string, log zerolog.Logger) (*Process, error) {
	return NewWith(ctx, c, version, log, nil)
}

// App is an app in this process.
type App struct {
	Handler fasthttp.RequestHandler
	Streams bool            // see proxy.Options.HandlerStreams
	Overdue func(why error) // see node.Options
	// Hook makes a call to its hooks; nil: it has none.
	Hook func(ctx context.Context, call ack.HookCall) ack.HookResult
}

// NewWith is New for a node with an app in this process, which the settings say too;
// nil: it has none.
func NewWith(ctx context.Context, c *config.Config, version string, log zerolog.Logger, app *App) (_ *Process, err error) {
	p := &Process{log: log, started: c, live: c}
	p.journal.log = log
	p.reloads.note(nil)
	if p.guards, err = openGuards(c, log); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.listen.close()
		}
	}()
	first, err := p.prepare(c)
	if err != nil {
		return nil, err
	}
	// Names are resolved and the disk is looked at before the ports are open: the
	// one takes its time and ends with ctx, the other may be full, and a port that is
	// closed again resets who waits there.
	o, err := options(ctx, c, log)
	if err != nil {
		return nil, err
	}
	if o.Dir, err = disk.Open(c.Data, c.Node); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeSelf(o.Self), o.Dir.Close())
		}
	}()
	log = told(log, o.Dir)
	p.log, p.guards.log, p.journal.log, o.Log = log, log, log, log
	warnOfOpenness(c.Data, o.Dir.Openness(), log)
	o.Self = listenSelf(ctx, c.Data, log)
	if err = p.listen.open(ctx, c); err != nil {
		return nil, err
	}
	p.front = newFront(p.listen.app, first.cert, log)
	p.guards.share(p.front)
	p.journal.use(first.access, first.file) //nolint:contextcheck // it ends with the process, not with the start
	p.lameDuck.Store(int64(c.LameDuck))
	o.Version = version
	o.Hooks = appHooks(c, o.Proxy.DialUpstream, o.Dir.Disk())
	if app != nil {
		o.Proxy.Handler, o.Proxy.HandlerStreams, o.Overdue = app.Handler, app.Streams, app.Overdue
		if app.Hook != nil {
			o.Hooks = &hooks.Func{Call: app.Hook, Log: log}
		}
	}
	o.App, o.Peer = p.front, p.listen.peer
	o.Proxy.Settings, o.Keys = first.set, first.keys
	o.LameDuck = func() time.Duration { return time.Duration(p.lameDuck.Load()) }
	o.Exposed = p.exposed
	if err = p.guards.arm(&o); err != nil {
		return nil, err
	}
	if p.node, err = node.New(o); err != nil {
		return nil, err
	}
	metrics := prometheus.NewRegistry()
	if err = p.Register(metrics); err != nil {
		return nil, err
	}
	p.admin = admin.New(admin.Options{Cluster: p.node, Metrics: metrics, Events: p.node.Events(), Access: p.guards.access, Log: log})
	p.listen.admin = p.guards.listener(p.listen.admin)
	return p, nil
}

// warnOfOpenness says that every user of the machine had rights on the data
// directory, and whether that is over.
func warnOfOpenness(path string, o disk.Openness, log zerolog.Logger) {
	switch {
	case o.Mode == 0:
	case o.Closed:
		log.Warn().Str("data", path).Stringer("mode", o.Mode).Msg("data directory was open to every user of this machine: access is now restricted to its owner")
	default:
		log.Warn().Str("data", path).Stringer("mode", o.Mode).Str("remedy", "chmod 700, or name a directory below it with --data").
			Msg("data directory is open to every user of this machine")
	}
}

// open opens all ports that the settings name.
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
			ln = admin.LimitConns(ln)
		}
		*x.ln = ln
	}
	return nil
}

// options turns the settings into what a node is made from, all but what has to
// be opened.
func options(ctx context.Context, c *config.Config, log zerolog.Logger) (node.Options, error) {
	announced, err := announce(ctx, c)
	if err != nil {
		return node.Options{}, err
	}
	front, err := proxyOptions(c)
	if err != nil {
		return node.Options{}, err
	}
	o := node.Options{
		Shards: c.Shards, Weight: uint32(c.Weight), Zone: c.Zone, AppVersion: c.AppVersion, Gateway: c.Gateway(),
		MaxVoters: c.MaxVoters, BootstrapExpect: c.BootstrapExpect, FoundsAlone: c.BootstrapExpect == 1 && c.From("bootstrap-expect") != config.FromDefault, Join: c.Join, Endpoints: announced,
		RemoveDeadAfter: c.RemoveDeadAfter, LevelAfter: c.LevelAfter, ShutdownTimeout: c.ShutdownTimeout,
		Timing:     timing(c),
		Pace:       ack.Pace{Heartbeat: c.Heartbeat, DrainTimeout: c.DrainTimeout, RestartGrace: c.RestartGrace},
		GossipBind: c.Gossip, GossipAdvertise: c.GossipAdvertise,
		Queue: queue.Options{Requests: c.QueueRequests, Bytes: c.QueueBytes, Wait: c.QueueWait, CPUUsage: clock.Spent},
		Proxy: front, Clock: clock.New(), Log: log,
		ReleaseTimeout: c.ReleaseTimeout, AcquireTimeout: c.AcquireTimeout,
		Settings: c.ClusterSettings(),
	}
	o.AfterRestart = c.Returns == config.ReturnsAfterRestart && !c.HasHooks() && !c.Gateway()
	if c.OnTerm == config.OnTermHold {
		o.HoldGrace = c.HoldGrace
	}
	if c.Upstream != "" {
		named := &appInstance{}
		o.CheckApp, o.AppInstance, o.Health = appChecker(front.DialUpstream, c.UpstreamAddress(), c.Health, named), named.get, health(c)
	}
	return o, nil
}

// health is how the app is checked.
func health(c *config.Config) node.Health {
	h := node.Health{Interval: c.HealthInterval, Timeout: c.HealthTimeout, Fall: c.HealthFall, Rise: c.HealthRise}
	if c.OnTerm == config.OnTermHold {
		h.Hold = c.HoldGrace
	}
	return h
}

// timing is that of a cluster which this node founds. The settings are checked, so
// the words are known.
func timing(c *config.Config) ack.Timing {
	fence, _ := ack.ParseFence(string(c.Fence))
	pause, _ := ack.ParsePause(string(c.Pause))
	return ack.Timing{Lease: c.Lease, DeadAfter: c.DeadAfter, Fence: fence, Pause: pause}
}

func proxyOptions(c *config.Config) (proxy.Options, error) {
	set, err := proxySettings(c)
	if err != nil {
		return proxy.Options{}, err
	}
	o := proxy.Options{
		MaxUpstreamConns: c.MaxUpstreamConns, MaxShardConns: c.MaxShardConns, MaxStreams: c.MaxStreams, BodyBuffer: int(c.BodyBuffer), MaxConns: c.MaxConns, Settings: set,
		SocketWait: c.SocketWait, DrainTimeout: c.DrainTimeout, SocketsLeave: c.ShutdownTimeout / 2,
	}
	if c.Upstream != "" {
		o.DialUpstream, err = proxy.DialURL(c.Upstream)
	}
	if h := c.HooksAt(); !h.Own() {
		o.HookPath = h.Path
	}
	return o, err
}

// proxySettings are the settings that a running proxy takes over.
func proxySettings(c *config.Config) (proxy.Settings, error) {
	keys, err := proxy.NewKeys(proxy.KeySpec{Sources: c.Keys, Routes: c.KeyRoutes(), OnMissingKey: string(c.OnMissingKey)})
	if err != nil {
		return proxy.Settings{}, err
	}
	return proxy.Settings{
		Keys: keys, StreamGrace: orNone(c.StreamGrace), CloseSockets: c.Sockets == config.SocketsClose,
		DebugHeaders: c.DebugHeaders, Forwarded: c.Forwarded, TrustedProxies: c.TrustedProxies, ProbePath: c.ProbePath,
		MaxHeaderBytes: int(c.MaxHeaderBytes), MaxHeaderBytesTotal: c.MaxHeaderBytesTotal, MaxBodyTotal: c.MaxBodyTotal, MaxHeaders: c.MaxHeaders, MaxURI: int(c.MaxURI), MaxBody: c.MaxBody, MaxShardInflight: c.MaxShardInflight,
		HeaderTimeout: c.HeaderTimeout, IdleTimeout: c.IdleTimeout, MinBodyRate: orAny(c.MinBodyRate), ConnectTimeout: c.ConnectTimeout,
		FirstByteTimeout: orNone(c.FirstByteTimeout), UpstreamIdleTimeout: orNone(c.UpstreamIdleTimeout),
	}, nil
}

// orAny is orNone for a rate.
func orAny(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

// orNone writes a setting's zero as the proxy does: there zero is the default.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// announce returns the endpoints of the node. Where a bind address names no
// host, the one of the peer port serves: it is reached from everywhere.
func announce(ctx context.Context, c *config.Config) (map[string]string, error) {
	peer, err := gossip.Advertise(ctx, c.Peer, c.PeerAdvertise, c.Join, net.DefaultResolver)
	if err != nil {
		return nil, err
	}
	all := map[string]string{"peer": peer.String()}
	for name, bind := range map[string]string{"http": c.Listen, "admin": c.Admin} {
		addr, err := reach(ctx, bind, peer.Addr())
		if err != nil {
			return nil, err
		}
		// Where the others are on other machines, an address on loopback tells
		// them nothing.
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

// reach returns the address at which others find a bind address.
func reach(ctx context.Context, bind string, host netip.Addr) (netip.AddrPort, error) {
	h, port, err := net.SplitHostPort(bind)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if ip, err := netip.ParseAddr(h); h == "" || err == nil && ip.IsUnspecified() {
		bind = net.JoinHostPort(host.String(), port)
	}
	return gossip.Advertise(ctx, bind, "", nil, net.DefaultResolver)
}
