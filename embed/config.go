package embed

import (
	"io"
	"net/netip"
	"time"

	"github.com/valyala/fasthttp"
)

// Config is what a node is made from: the settings of `shardway run` by their names
// there, but those of an app that is another process. The zero value of each field is
// that setting's default. Where a setting can be off, or zero means something, a negative
// value says so. `shardway run --help` lists defaults and bounds.
type Config struct {
	// Handler is the app. It is called from many goroutines. See HTTP for an
	// http.Handler.
	Handler fasthttp.RequestHandler
	// StreamBodies gives it long bodies of requests as streams.
	StreamBodies bool
	// Acquire loads shards before their first requests here, Release writes them before
	// they move, and Lost forgets them without writing anything: another node may own
	// them already. One that is nil has nothing to do; with all three nil a shard is
	// served as soon as it is this node's. They are called from several goroutines, of
	// which no two name the same shard.
	Acquire, Release, Lost HookFunc
	// Exit ends the process because a handler did not return though another node may
	// run its shard from now on. Nil: a line in the log, and os.Exit(1). One that returns
	// leaves it to the epoch alone to keep the two apart.
	Exit func(why error)
	// Log takes the log; nil: standard error.
	Log io.Writer

	// Args and Environ are a command line and an environment of `shardway run`, which
	// the fields below beat; nil: none is read.
	Args, Environ []string
	// File is a YAML file of settings, which the fields and Args and Environ beat.
	File string

	// The node.

	Node             string
	Data             string
	MaxUpstreamConns int // requests that the handler runs at once
	MaxShardConns    int // of those, for one shard
	MaxShardInflight int // requests of one shard; zero: any number
	MaxStreams       int
	Weight           int
	Zone             string
	AppVersion       string

	// Addresses.

	Listen, Admin, Gossip, GossipAdvertise, Peer, PeerAdvertise string

	Endpoints       []string // NAME=ADDR
	Probes          string
	ProbePath       string
	TLSCert, TLSKey string

	// The cluster.

	Join            []string
	BootstrapExpect int
	Shards          int
	MaxVoters       int
	RemoveDeadAfter time.Duration
	FinalizeAfter   time.Duration
	Takeover        string
	RebalanceMode   string

	// Requests.

	Key                     []string
	Routes                  []Route
	OnMissingKey            string
	TrustedProxies          []netip.Prefix
	Forwarded, DebugHeaders bool

	// Timings.

	Heartbeat, Lease, DeadAfter             time.Duration
	DrainTimeout, StreamGrace, RestartGrace time.Duration
	ReleaseTimeout, AcquireTimeout          time.Duration // of the hooks
	LameDuck, ShutdownTimeout               time.Duration
	OnShutdown                              string        // what Run does with the node's shards once ctx ends
	HoldGrace                               time.Duration // with OnShutdown "hold"
	Returns                                 string        // without hooks, when shards may return: "after-restart" or "any"
	SocketWait                              time.Duration
	Sockets                                 string

	// Queue and limits.

	QueueRequests                                  int
	QueueBytes                                     int64
	QueueWait                                      time.Duration
	BodyBuffer                                     int64
	MaxHeaderBytes, MaxHeaderBytesTotal, MaxURI    int64
	MaxBody, MaxBodyTotal                          int64
	MaxHeaders, MaxConns                           int
	HeaderTimeout, IdleTimeout                     time.Duration
	MinBodyRate                                    int64
	ConnectTimeout                                 time.Duration // of other nodes
	FirstByteTimeout                               time.Duration // the handler's time
	UpstreamIdleTimeout                            time.Duration // of other nodes' answers
	SecretFile                                     string
	TLSCA, TLSNodeCert, TLSNodeKey                 string
	Insecure                                       bool
	AdminReadTokenFile, AdminWriteTokenFile        string
	AdminCert, AdminKey, AdminReadCA, AdminWriteCA string
	AdminHost                                      []string
	LogLevel, LogFormat                            string
	AccessLog                                      string
	AccessLogKeys, AccessLogQuery                  bool
}

// Route gives the requests below a path prefix their own key sources.
type Route struct {
	Prefix string
	Key    []string
}
