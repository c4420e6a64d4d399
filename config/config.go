package config

import (
	"net/netip"
	"time"

	"shardway/keysource"
)

// Takeover says what must have happened before the shards of a node that went
// silent may be served elsewhere.
type Takeover string

// The takeover policies, from the most careful to the quickest.
const (
	// TakeoverTimeout waits for dead-after, whatever the evidence says.
	TakeoverTimeout Takeover = "timeout"
	// TakeoverLease takes a crash for one once the node's lease has certainly run
	// out.
	TakeoverLease Takeover = "lease"
	// TakeoverImmediate takes a refused connection at its word.
	TakeoverImmediate Takeover = "immediate"
)

// RebalanceMode says what stops while the shard map changes.
type RebalanceMode string

// The rebalance modes.
const (
	// RebalanceIncremental holds only the shards that change their owner.
	RebalanceIncremental RebalanceMode = "incremental"
	// RebalanceStopTheWorld starts nothing anywhere until the new map is committed.
	RebalanceStopTheWorld RebalanceMode = "stop-the-world"
)

// LogFormat is how log lines look.
type LogFormat string

// The log formats. LogAuto is console on a terminal and JSON elsewhere.
const (
	LogAuto    LogFormat = "auto"
	LogConsole LogFormat = "console"
	LogJSON    LogFormat = "json"
)

// What AccessLog may say instead of a file's name.
const (
	AccessOff    = "off"
	AccessStdout = "stdout"
)

// Route gives the requests below a path prefix their own key sources.
type Route struct {
	Prefix string   // begins with a slash
	Keys   []string // key sources, tried in order; never empty
}

// Endpoint is one address that a node announces besides its own.
type Endpoint struct {
	Name    string
	Address string // host:port
}

// WebSockets says what becomes of a WebSocket whose app says that it may be kept.
type WebSockets string

const (
	// WebSocketsKeep means that it stays open when its shard moves.
	WebSocketsKeep WebSockets = "keep"
	// WebSocketsClose means that it is closed then, as any other.
	WebSocketsClose WebSockets = "close"
)

// Returns is when a shard that has left an app without hooks may return to it.
type Returns string

const (
	// ReturnsAfterRestart means after the app has restarted, or if no other node can own it.
	ReturnsAfterRestart Returns = "after-restart"
	// ReturnsAny means at any time.
	ReturnsAny Returns = "any"
)

// OnShutdown says what a node that is told to stop does with its shards.
type OnShutdown string

const (
	// OnShutdownHandoff means that other nodes get them.
	OnShutdownHandoff OnShutdown = "handoff"
	// OnShutdownHold means that they wait for the node's next process.
	OnShutdownHold OnShutdown = "hold"
)

// MaxWeight is the highest weight of a node, as shardmap.MaxWeight.
const MaxWeight = 1000

// Config holds every setting of a node. Default and Load make it; the zero
// value is not usable. The slices are shared: nobody changes them.
type Config struct {
	File string // the YAML file; empty: none

	Node       string // empty: the id kept in the data directory
	Data       string // directory of the Raft log, the snapshots and the identity
	Zone       string // empty: none
	AppVersion string // empty: not said
	Weight     int    // 1..MaxWeight

	Embedded bool // the app is in this process; no setting
	Hooked   bool // that one has hooks; no setting

	Upstream         string // http://host:port or unix:/path; empty: a gateway, which owns nothing
	MaxUpstreamConns int
	MaxShardConns    int // zero: half of MaxUpstreamConns
	MaxShardInflight int // zero: any number
	MaxStreams       int
	Health           string // path of the app's health check; empty: connect only

	HealthInterval time.Duration
	HealthTimeout  time.Duration
	HealthFall     int // failed checks in a row that make the app unhealthy
	HealthRise     int // good ones that make it healthy

	Returns Returns // of shards to an app without hooks

	Hooks string // URL of the app's hooks, or their path at Upstream, which a gateway may know too; empty: there are none

	Listen          string
	Admin           string
	Gossip          string
	GossipAdvertise string // empty: the address of the route towards the first join
	Peer            string
	PeerAdvertise   string // empty: as GossipAdvertise, with the port of Peer
	Probes          string // empty: probes are answered on Admin only
	ProbePath       string // empty: the app port answers no probe
	TLSCert         string // empty: app traffic is plain
	TLSKey          string // set with TLSCert
	Endpoints       []Endpoint

	Join            []string // host:port, or a name to look up
	BootstrapExpect int      // how many nodes start the cluster together
	Shards          int
	MaxVoters       int
	RemoveDeadAfter time.Duration // zero: a dead server is never removed
	FinalizeAfter   time.Duration // zero: the format version is raised as soon as all nodes support the next one

	Keys           []string // key sources, tried in order; never empty
	Routes         []Route  // longest prefix first
	OnMissingKey   keysource.Missing
	TrustedProxies []netip.Prefix
	WebSockets     WebSockets
	Forwarded      bool // add the header Forwarded
	DebugHeaders   bool

	Heartbeat              time.Duration
	Lease                  time.Duration
	DeadAfter              time.Duration
	DrainTimeout           time.Duration
	ReleaseTimeout         time.Duration
	AcquireTimeout         time.Duration
	StreamGrace            time.Duration
	WebSocketResumeTimeout time.Duration
	RestartGrace           time.Duration // zero: a restart is not waited for
	LameDuck               time.Duration // zero: the listener closes as soon as the shards are elsewhere
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
	MaxBody             int64 // zero: no bound
	MaxConns            int

	HeaderTimeout       time.Duration
	IdleTimeout         time.Duration
	MinBodyRate         int64 // bytes a second; zero: any
	ConnectTimeout      time.Duration
	FirstByteTimeout    time.Duration // zero: no bound
	UpstreamIdleTimeout time.Duration // zero: no bound

	SecretFile  string // the cluster's secrets; empty: nothing between nodes is protected by one
	TLSCA       string // own certificates for the peer port: all three or none
	TLSNodeCert string
	TLSNodeKey  string
	Insecure    bool

	AdminReadTokenFile  string
	AdminWriteTokenFile string
	AdminCert           string // TLS on the admin port: both or none
	AdminKey            string
	AdminReadCA         string // who issues client certificates; with AdminCert only
	AdminWriteCA        string
	AdminHosts          []string

	LogLevel  string
	LogFormat LogFormat

	AccessLog      string // AccessOff, AccessStdout or a file
	AccessLogKeys  bool   // with the keys themselves
	AccessLogQuery bool   // with the queries

	// from says where a setting's value came from; a missing one is the default.
	from map[string]string
}

// Default returns the settings of a node that nobody configured: it runs on one
// machine, as a cluster of its own.
func Default() Config {
	var c Config
	for _, s := range settings() {
		if len(s.def) == 0 {
			continue
		}
		if f := s.bind(&c).set(s.def); f != nil {
			panic("config: bad default for " + s.name + ": " + f.wrong)
		}
	}
	return c
}

// Sealed reports whether the peer port speaks TLS.
func (c *Config) Sealed() bool { return c.SecretFile != "" || c.TLSCA != "" }

// Guarded reports whether the admin port asks who is there.
func (c *Config) Guarded() bool {
	return c.AdminReadTokenFile != "" || c.AdminWriteTokenFile != "" || c.AdminReadCA != "" || c.AdminWriteCA != ""
}

// Gateway reports whether the node routes and owns nothing.
func (c *Config) Gateway() bool { return c.Upstream == "" && !c.Embedded }

// HasHooks reports whether the app takes part in giving up and taking over shards.
func (c *Config) HasHooks() bool { return c.Hooks != "" || c.Hooked }

// FromDefault is Value.From of what nobody chose.
const FromDefault = "default"

// source says where the value of a setting came from.
func (c *Config) source(name string) string {
	if from, ok := c.from[name]; ok {
		return from
	}
	return FromDefault
}

// given reports whether somebody chose the value of a setting.
func (c *Config) given(name string) bool {
	_, ok := c.from[name]
	return ok
}
