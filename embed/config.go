package embed

import (
	"context"
	"io"
	"net/netip"
	"time"

	"github.com/valyala/fasthttp"
)

// Config contains the settings of a node. They have the names of the flags of `shardway run`,
// without those of an app in another process. The zero value of a field means the default. If a
// setting can be disabled, or if zero has a meaning, a negative value selects this. `shardway run
// --help` lists defaults and limits.
type Config struct {
	// Handler is the app. It is called concurrently. Use HTTP for an http.Handler.
	Handler fasthttp.RequestHandler
	// StreamBodies makes long request bodies streams.
	StreamBodies bool
	// Acquire loads the state of shards before their first request on this node. Release saves it
	// before they move. Lost discards it without saving, because another node may already own the
	// shards. A nil hook does nothing. If all three are nil, a shard is served as soon as this node owns
	// it. Hooks are called concurrently, but not for the same shard.
	Acquire, Release, Lost HookFunc

	// The following six callbacks are optional. They are called while Run runs. One goroutine calls them, one at a time and
	// in the order of the events, so a slow callback delays the others, but never the node. Up to 1,024 events wait. Beyond
	// that, the callbacks skip events, and report the difference to the current state once (ReasonMissed). A panic is
	// logged, and the next callback follows. ctx ends when the node has stopped. Run then waits for the callbacks of the
	// remaining events, for up to 5 s.

	// NodeJoined is called when a node has joined the cluster that this node has not seen before. When this
	// node starts, it is called for each node that it finds, and for itself. NodeRejoined is called when a node is back
	// that this node has seen before, and NodeLeft when a node has left, failed or was removed, or restarts in place.
	// These calls alternate for each node, so none of them is repeated.
	NodeJoined, NodeRejoined, NodeLeft func(ctx context.Context, c NodeChange)
	// RebalanceStarted is called when the leader has proposed a map that gives shards another owner, and
	// RebalanceCompleted when that map is in force, or when another one replaces it. Each start is followed by exactly one
	// completion with the same Epoch before the next start.
	RebalanceStarted, RebalanceCompleted func(ctx context.Context, r Rebalance)
	// ClusterHealthChanged is called when the cluster has a different state than in the previous call.
	ClusterHealthChanged func(ctx context.Context, h ClusterHealth)

	// Exit is called if a handler has not returned although another node may now run its shard. It must end the
	// process. If it is nil, the node logs the error and calls os.Exit(1). If Exit returns, only fencing by the
	// epoch protects the data of the app.
	Exit func(why error)
	// Log receives the log. The default is standard error.
	Log io.Writer

	// Args and Environ are a command line and an environment of `shardway run`. The fields below have precedence.
	// Both may be nil.
	Args, Environ []string
	// File is a YAML file with settings. The fields, Args and Environ have precedence.
	File string

	// The node.

	Node             string
	Data             string
	MaxUpstreamConns int    // maximum concurrent requests of the handler
	MaxShardConns    int    // the same for one shard
	MaxShardInflight int    // maximum requests of one shard; zero means no limit
	MaxKeyInflight   int    // maximum requests of one key; zero means no limit
	KeyLimit         string // limits of each key, like "rate=10/s; burst=20"; empty means none
	ShardQueue       int    // requests of one shard or key that wait for that limit; zero means none
	MaxStreams       int
	Weight           int
	Zone             string
	Region           string
	Roles            []string
	Meta             []string // KEY=VALUE
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
	Replicas        int  // number of standbys of each shard
	SpreadZones     bool // all zones own the same number of shards
	MaxVoters       int
	RemoveDeadAfter time.Duration
	JoinApproval    string // "auto" or "manual"
	JoinTimeout     time.Duration
	Registry        bool // offer the registry at the admin port
	FinalizeAfter   time.Duration
	Takeover        string
	RebalanceMode   string

	// Requests.

	Key                     []string
	Routes                  []Route
	Headers                 HeaderRules // in addition to those of Routes; empty means those of File
	OnMissingKey            string
	Cookie                  string // attributes of the cookie of OnMissingKey "cookie", like "name=app-key; max-age=720h"
	TrustedProxies          []netip.Prefix
	Forwarded, DebugHeaders bool

	// Timings.

	Heartbeat, Lease, DeadAfter             time.Duration
	RaftTimeout                             time.Duration // without the leader, until an election
	DrainTimeout, StreamGrace, RestartGrace time.Duration
	ReleaseTimeout, AcquireTimeout          time.Duration // timeouts of the hooks
	LameDuck, ShutdownTimeout               time.Duration
	OnShutdown                              string        // what Run does with the shards when ctx ends
	HoldGrace                               time.Duration // with OnShutdown "hold"
	Returns                                 string        // without hooks, when shards may return: "after-restart" or "any"
	WebSocketResumeTimeout                  time.Duration
	WebSockets                              string

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
	FirstByteTimeout                               time.Duration // limit for the handler
	TotalTimeout                                   time.Duration // of whole requests, without WebSockets and event streams
	UpstreamIdleTimeout                            time.Duration // of responses of other nodes
	SecretFile                                     string
	TLSCA, TLSNodeCert, TLSNodeKey                 string
	Insecure                                       bool
	AdminReadTokenFile, AdminWriteTokenFile        string
	AdminCert, AdminKey, AdminReadCA, AdminWriteCA string
	AdminHost                                      []string
	LogLevel, LogFormat                            string
	AccessLog                                      string
	AccessLogKeys, AccessLogQuery                  bool
	Webhook                                        string   // URL to which the node sends its events
	Disable                                        []string // event-loop, multiplexing, parking, splice
}

// Route has the key sources of requests below a path prefix.
type Route struct {
	Prefix string
	Key    []string // empty means those of a shorter prefix, or of Config.Keys
	// KeyLimit and the timeouts replace the settings for the path, in the syntax of the flags. Empty
	// means the value of a shorter prefix, or of the setting.
	KeyLimit, FirstByteTimeout, UpstreamIdleTimeout, TotalTimeout string
	// Headers contains header rules, in addition to those of shorter prefixes and of Config.Headers.
	Headers HeaderRules
}

// HeaderRules contains rules for the header fields of requests to the handler and of its responses.
type HeaderRules struct{ Request, Response HeaderFields }

// HeaderFields is the part of HeaderRules for requests or responses. First the fields of Remove and Set
// are removed, and then those of Set and Add are added.
type HeaderFields struct {
	Set, Add []HeaderField
	Remove   []string // names
}

// HeaderField is a header field.
type HeaderField struct{ Name, Value string }
