package config

import (
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"shardway/internal/headerrules"
	"shardway/keysource"
)

// Takeover is the condition for moving the shards of an unresponsive node to other nodes.
type Takeover string

// The takeover policies, from the safest to the fastest.
const (
	// TakeoverTimeout always waits for dead-after, even if there is evidence of a crash.
	TakeoverTimeout Takeover = "timeout"
	// TakeoverLease waits after evidence of a crash until the lease of the node has certainly expired.
	TakeoverLease Takeover = "lease"
	// TakeoverImmediate treats a refused connection as a crash and does not wait.
	TakeoverImmediate Takeover = "immediate"
)

// RebalanceMode selects the requests that wait while the shard map changes.
type RebalanceMode string

// The rebalance modes.
const (
	// RebalanceIncremental queues only the requests of shards that change their owner.
	RebalanceIncremental RebalanceMode = "incremental"
	// RebalanceStopTheWorld queues all requests until the new map is committed.
	RebalanceStopTheWorld RebalanceMode = "stop-the-world"
)

// JoinApproval decides how new nodes join the cluster.
type JoinApproval string

// The kinds of approval.
const (
	JoinAuto   JoinApproval = "auto"   // the leader adds new nodes at once
	JoinManual JoinApproval = "manual" // an operator approves each new node
)

// ExecPer is what each process of the app is for.
type ExecPer string

// The values of ExecPer.
const (
	ExecPerKey   ExecPer = "key"
	ExecPerShard ExecPer = "shard"
)

// LogFormat is the format of log lines.
type LogFormat string

// The log formats. LogAuto is console on a terminal and JSON elsewhere.
const (
	LogAuto    LogFormat = "auto"
	LogConsole LogFormat = "console"
	LogJSON    LogFormat = "json"
)

// Values of AccessLog that are not file names.
const (
	AccessOff    = "off"
	AccessStdout = "stdout"
)

// Optimization is the name of an optimization that Disable can turn off.
type Optimization string

// The optimizations. Each of them saves CPU time or memory, and changes no response.
const (
	EventLoop    Optimization = "event-loop"   // serves small requests of many clients in one goroutine
	Multiplexing Optimization = "multiplexing" // forwards small requests and resumable WebSockets in streams of one connection per node
	Parking      Optimization = "parking"      // needs no goroutine for an idle connection
	Splice       Optimization = "splice"       // copies long response bodies inside the kernel
)

// Disables reports whether an optimization is turned off.
func (c *Config) Disables(optimization Optimization) bool {
	return slices.Contains(c.Disable, string(optimization))
}

// Route contains settings for requests below a path prefix.
type Route struct {
	Prefix string // begins with a slash
	// Keys are the key sources, tried in order. Empty means those of the next shorter prefix, or of the
	// setting key.
	Keys []string
	// KeyLimit and the timeouts replace the settings of the same name. Empty means the value of the
	// next shorter prefix, or of the setting.
	KeyLimit, FirstByteTimeout, UpstreamIdleTimeout, TotalTimeout string
	// Headers contains header rules, in addition to those of shorter prefixes and of the setting
	// headers.
	Headers headerrules.Config
}

// Endpoint is an additional address that a node announces.
type Endpoint struct {
	Name    string
	Address string // host:port
}

// WebSockets is the treatment of WebSockets that the app declares resumable.
type WebSockets string

const (
	// WebSocketsKeep keeps the WebSocket open when its shard moves.
	WebSocketsKeep WebSockets = "keep"
	// WebSocketsClose closes the WebSocket when its shard moves.
	WebSocketsClose WebSockets = "close"
)

// Returns is the condition for moving a shard back to an app without hooks that owned it before.
type Returns string

const (
	// ReturnsAfterRestart permits the return after the app has restarted, or if no other node can own
	// the shard.
	ReturnsAfterRestart Returns = "after-restart"
	// ReturnsAny always permits the return.
	ReturnsAny Returns = "any"
)

// OnShutdown selects what a stopping node does with its shards.
type OnShutdown string

const (
	// OnShutdownHandoff moves the shards to other nodes.
	OnShutdownHandoff OnShutdown = "handoff"
	// OnShutdownHold keeps the shards for the next process of the node.
	OnShutdownHold OnShutdown = "hold"
)

// MaxWeight is the highest weight of a node. It equals shardmap.MaxWeight.
const MaxWeight = 1000

// Config contains all settings of a node. Use Default or Load: the zero value is not valid. A Config is
// immutable, and its slices are shared.
type Config struct {
	File string // the YAML file; empty means none

	Node       string // empty means the ID in the data directory
	Data       string // directory of the Raft log, the snapshots and the identity
	Zone       string // empty means none
	Region     string // empty means none
	Roles      []string
	Meta       []string // KEY=VALUE, see nodelabel.ParseMeta
	AppVersion string   // empty means unknown
	Weight     int      // 1..MaxWeight

	Embedded      bool // the app runs in this process; not a setting
	EmbeddedHooks bool // the embedded app has hooks; not a setting

	Upstream         string   // http://host:port or unix:/path; empty means a gateway, which owns no shards
	FurtherUpstreams []string // addresses of the app instances after the first one
	Exec             string   // command of the app's processes; empty means that the app runs already
	ExecPer          ExecPer
	ExecDir          string        // directory below which each process has its own; empty means exec in Data
	ExecReady        string        // path that a process answers when it is ready; empty means a connection attempt only
	ExecIdle         time.Duration // zero means that an unused process is never stopped
	ExecMax          int
	MaxUpstreamConns int
	MaxShardConns    int    // zero means half of MaxUpstreamConns
	MaxShardInflight int    // zero means no limit
	MaxKeyInflight   int    // zero means no limit
	KeyLimit         string // see ParseKeyLimit
	ShardQueue       int    // zero means that requests beyond the in-flight limit do not wait
	MaxStreams       int
	Health           string // path of the app's health check; empty means a connection attempt only

	HealthMethod   string
	HealthHost     string   // value of the Host header; empty means the address of the app
	HealthHeaders  []string // fields such as "X-Forwarded-Proto: https"
	HealthStatus   []string // accepted status codes and ranges of them
	HealthBody     string   // text that the body of the response must contain; empty means any body
	HealthInterval time.Duration
	HealthTimeout  time.Duration
	HealthFall     int // consecutive failed checks after which the app is unhealthy
	HealthRise     int // consecutive successful checks after which the app is healthy

	Returns Returns // condition for the return of a shard; without hooks only

	Hooks string // URL of the hooks of the app, or their path at Upstream; also valid for a gateway; empty means no hooks

	Listen          string
	Admin           string
	Gossip          string
	GossipAdvertise string // empty means the local address of the route to the first join address
	Peer            string
	PeerAdvertise   string // empty means GossipAdvertise with the port of Peer
	Probes          string // empty means that only Admin serves probes
	ProbePath       string // empty means that the app port serves no probe
	TLSCert         string // empty means plain HTTP for app traffic
	TLSKey          string // set with TLSCert
	Endpoints       []Endpoint

	Join            []string // host:port, or a name to look up
	BootstrapExpect int      // number of nodes that start the cluster together
	Replicas        int      // number of standbys of each shard
	SpreadZones     bool     // all zones own the same number of shards
	Shards          int
	MaxVoters       int
	RemoveDeadAfter time.Duration // zero means that a dead server is never removed
	Registry        bool          // offer the registry at the admin port
	JoinApproval    JoinApproval
	JoinTimeout     time.Duration // for the decision of an operator about a join request
	FinalizeAfter   time.Duration // zero means that the format version is raised as soon as all nodes support the next one

	Services []Service // ascending by name; nil means one service with the settings of the node

	Keys           []string // key sources, tried in order; never empty
	Routes         []Route  // longest prefix first
	Headers        headerrules.Config
	OnMissingKey   keysource.Missing
	Cookie         string // attributes of the sticky cookie, see ParseCookie; empty means the defaults
	TrustedProxies []netip.Prefix
	WebSockets     WebSockets
	Forwarded      bool // add the header Forwarded
	DebugHeaders   bool

	Heartbeat              time.Duration
	Lease                  time.Duration
	DeadAfter              time.Duration
	RaftTimeout            time.Duration
	DrainTimeout           time.Duration
	ReleaseTimeout         time.Duration
	AcquireTimeout         time.Duration
	StreamGrace            time.Duration
	WebSocketResumeTimeout time.Duration
	RestartGrace           time.Duration // zero means that the cluster does not wait for a restart
	LameDuck               time.Duration // zero means that the listener closes as soon as other nodes own the shards
	ShutdownTimeout        time.Duration
	OnShutdown             OnShutdown
	HoldGrace              time.Duration
	Takeover               Takeover
	RebalanceMode          RebalanceMode

	QueueRequests int
	QueueBytes    int64
	QueueWait     time.Duration
	BodyBuffer    int64

	MaxHeaderBytes      int64
	MaxHeaderBytesTotal int64
	MaxBodyTotal        int64
	MaxHeaders          int
	MaxURI              int64
	MaxBody             int64 // zero means no limit
	MaxConns            int

	HeaderTimeout       time.Duration
	IdleTimeout         time.Duration
	MinBodyRate         int64 // bytes per second; zero means no limit
	ConnectTimeout      time.Duration
	FirstByteTimeout    time.Duration // zero means no limit
	UpstreamIdleTimeout time.Duration // zero means no limit
	TotalTimeout        time.Duration // zero means no limit

	SecretFile  string // file with the secrets of the cluster; empty means no protection between nodes
	TLSCA       string // certificates for the peer port: all three or none
	TLSNodeCert string
	TLSNodeKey  string
	Insecure    bool

	AdminReadTokenFile  string
	AdminWriteTokenFile string
	AdminCert           string // TLS on the admin port: both or none
	AdminKey            string
	AdminReadCA         string // authorities of client certificates; requires AdminCert
	AdminWriteCA        string
	AdminHosts          []string

	LogLevel  string
	LogFormat LogFormat

	AccessLog      string   // AccessOff, AccessStdout or a file
	AccessLogKeys  bool     // log keys in plain text
	AccessLogQuery bool     // log query strings
	Webhook        string   // URL to which the node sends its events, which can contain secrets; empty means none
	Disable        []string // optimizations that are off; each is an Optimization

	// origins maps the name of a setting to the origin of its value. A setting that is missing in the map
	// has its default value.
	origins map[string]string
}

// Default returns the default settings: a cluster of one node on one machine.
func Default() Config {
	var cfg Config
	for _, s := range settings() {
		if len(s.defaults) == 0 {
			continue
		}
		if f := s.valueOf(&cfg).set(s.defaults); f != nil {
			panic("config: bad default for " + s.name + ": " + f.message)
		}
	}
	return cfg
}

// UsesPeerTLS reports whether the peer port uses TLS.
func (c *Config) UsesPeerTLS() bool { return c.SecretFile != "" || c.TLSCA != "" }

// RequiresAdminCredentials reports whether the admin port requires credentials.
func (c *Config) RequiresAdminCredentials() bool {
	return c.AdminReadTokenFile != "" || c.AdminWriteTokenFile != "" || c.AdminReadCA != "" || c.AdminWriteCA != ""
}

// Gateway reports whether the node is a gateway, which routes requests and owns no shards.
func (c *Config) Gateway() bool {
	return c.Upstream == "" && c.Exec == "" && !c.Embedded && !c.runsService((*Service).Runs)
}

// runsService reports whether this node runs a service that matches.
func (c *Config) runsService(matches func(*Service) bool) bool {
	for i := range c.Services {
		if service := &c.Services[i]; service.Runs() && matches(service) {
			return true
		}
	}
	return false
}

// HasHooks reports whether the app has hooks. Starting and stopping processes takes the place of hooks.
func (c *Config) HasHooks() bool {
	if c.HasServices() {
		return c.runsService(func(service *Service) bool { return service.Settings.Hooks != "" })
	}
	return c.Hooks != "" || c.EmbeddedHooks || c.Exec != ""
}

// Upstreams returns the addresses of the app instances, those of all services. It returns none for a
// gateway, and with Exec.
func (c *Config) Upstreams() []string {
	if c.HasServices() {
		var all []string
		for i := range c.Services {
			all = append(all, c.Services[i].Settings.Upstreams()...)
		}
		return all
	}
	if c.Upstream == "" {
		return nil
	}
	return append([]string{c.Upstream}, c.FurtherUpstreams...)
}

// ExecDirectory returns the directory below which each process of the app has its own.
func (c *Config) ExecDirectory() string {
	if c.ExecDir != "" {
		return c.ExecDir
	}
	return filepath.Join(c.Data, "exec")
}

// OriginDefault is the origin of a setting that has its default value.
const OriginDefault = "default"

// Origin returns the origin of the value of a setting, as in Value.Origin.
func (c *Config) Origin(name string) string {
	if from, ok := c.origins[name]; ok {
		return from
	}
	return OriginDefault
}

// isSet reports whether the value of a setting was set explicitly.
func (c *Config) isSet(name string) bool {
	_, ok := c.origins[name]
	return ok
}
