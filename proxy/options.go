package proxy

import (
	"cmp"
	"context"
	"net"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"shardway/proxy/poison"
	"shardway/proxy/route"
	"shardway/proxy/upstream"
	"shardway/proxy/wsession"
	"shardway/queue"
	"shardway/shardmap"
)

// Options configures a Server. For durations and sizes, zero means the default. Where a limit can
// be disabled, a negative value means no limit.
type Options struct {
	// Node is this node's id.
	Node string
	// Shards is the number of shards of the cluster, for the load statistics. Zero means that no
	// statistics are collected.
	Shards int
	// Cluster is the node that contains the proxy.
	Cluster Cluster
	// Queue contains the requests that wait for an owner. Its Wait limits the total waiting time of
	// a request.
	Queue *queue.Queue
	// QueueWait must equal the Wait of Queue. Zero means queue.DefaultWait.
	QueueWait time.Duration
	// Log receives a debug line for each failed request, and a line for each failure to accept.
	Log zerolog.Logger

	// DialUpstream opens a connection to the app: see upstream.URLDialer. Nil means a gateway, which serves no
	// shard itself.
	DialUpstream func(ctx context.Context) (net.Conn, error)
	// FurtherUpstreams open connections to the app instances after the first one, which
	// DialUpstream connects to. A route contains the index of the instance. A nil element is an
	// instance that is not configured.
	FurtherUpstreams []func(ctx context.Context) (net.Conn, error)
	// ServiceInstances contains the app instances of each service of this node, by its name. nil means
	// that the node has one service, which all instances run.
	ServiceInstances map[string]upstream.InstanceBits
	// InstanceHealthy reports whether an app instance is healthy. Requests without a key go to such
	// an instance. Nil means that all are healthy. Any goroutine may call it.
	InstanceHealthy func(instance int) bool
	// KeepUpstream keeps one idle connection to the app until the app closes it. It lets
	// UpstreamConnected distinguish an app that has closed only its port from one that has exited.
	KeepUpstream bool
	// Processes starts one process of the app for each key or shard, and connects to them. It replaces DialUpstream. Nil
	// means that one app serves all shards.
	Processes Processes
	// Handler is an app in this process. It replaces DialUpstream. The limits for connections to
	// the app limit the number of concurrent calls of Handler.
	Handler fasthttp.RequestHandler
	// HandlerStreams passes bodies that exceed BodyBuffer, or have an unknown length, to Handler as
	// streams. Otherwise the proxy reads a body completely before it calls Handler, up to MaxBody,
	// or 4 MiB if MaxBody is zero.
	HandlerStreams bool
	// LeaseExpired reports whether running requests should already have been cancelled because the
	// lease they were admitted under expired. It reads the clock, because after a pause of the
	// process a Handler may resume before the goroutine that cancels it. Any goroutine may call it.
	// Nil means never.
	LeaseExpired func() bool
	// AcceptsNewKeys reports whether keys generated here may belong to shards of a node, which must
	// be neither draining nor cordoned. The empty name stands for this node. Nil means that every
	// node accepts them. Any goroutine may call it.
	AcceptsNewKeys func(node string) bool
	// MaxFirstMessages is the maximum number of WebSockets that wait for a first message with their
	// key. Zero means wsfirst.MaxWaiting.
	MaxFirstMessages int
	// MaxReplayMemory is the maximum total size in bytes of the messages that WebSockets store to
	// replay them after a move. Zero means wsrelay.MaxReplayMemory.
	MaxReplayMemory int64
	// HookPath is a path of the app. Clients get 404 for it and everything below it, however the
	// path is encoded. It consists of segments of letters, digits, - and _, each preceded by a
	// single slash. Empty means none.
	HookPath string
	// FurtherHookPaths are the paths of the hooks of further services, which differ from HookPath.
	FurtherHookPaths []string
	// PeerUnreachable is called when no connection to another node could be made for a request. It
	// must not block. It may be nil. Any goroutine may call it.
	PeerUnreachable func(node string)
	// NotAcquired is called when the app responds that it has not acquired a shard under an
	// ownership epoch for which the node has admitted a request: 421 with Shardway-Acquire: 1. In
	// that case the app has run nothing, and a newer table will tell the proxy once the app has
	// acquired the shard. Any goroutine may call it. If it is nil, such a response is passed on
	// like any other.
	NotAcquired func(s shardmap.Shard, epoch uint64)
	// HoldShard is called when the app responds with Shardway-Hold. The app then holds state of the
	// shard that must not move for the given time from now (0 to MaxHold; 0 ends the hold), under
	// an ownership epoch. Any goroutine may call it, before the request counts as finished. nil
	// means that the header has no effect.
	HoldShard func(s shardmap.Shard, epoch uint64, delay time.Duration)
	// AcquireError returns in a few words why the app has not acquired a shard that this node owns,
	// for the error response of waiting requests. Empty means that it has not failed. Any goroutine
	// may call it. Nil means that the reason is unknown.
	AcquireError func(s shardmap.Shard) string
	// Explain returns the known problem of the cluster, for the error response of a request. why is
	// why the request was queued, or zero. Any goroutine may call it. nil means that the cause is
	// unknown.
	Explain func(why route.Reason) route.Explanation
	// MaxUpstreamConns limits the connections to the app. Zero means 1024.
	MaxUpstreamConns int
	// MaxShardConns limits the connections to the app that requests of one shard use. Further
	// requests of the shard wait. Zero means half of MaxUpstreamConns. Negative means no limit.
	MaxShardConns int
	// MaxStreams limits the connections to the app that do not count toward MaxUpstreamConns:
	// upgraded connections, event streams, and responses that take longer than 10 s. Zero means
	// 4096. Beyond the limit, upgrades are rejected, and the others count toward MaxUpstreamConns.
	MaxStreams int
	// ResumeTimeout is how long a resumable WebSocket may be without a connection to its app while
	// no other WebSocket is resumed there. Overall, it may be without one for six times as long.
	// After that, its client gets close code 1012. Zero means 20 s.
	ResumeTimeout time.Duration
	// DrainTimeout is how long requests may take to finish when their shard moves, before the node
	// calls CancelShards. An app that is asked to end a resumable WebSocket has the same time. Zero
	// means 5 s.
	DrainTimeout time.Duration
	// ReconnectSpread is the period over which clients of resumable WebSockets are told to
	// reconnect after a call of Shutdown or DrainClients. Zero means 15 s.
	ReconnectSpread time.Duration
	// PeerConns limits the idle forwarding streams per node. Zero means 256.
	PeerConns int

	// BodyBuffer is how many bytes of a request body are buffered, so that the request can be
	// retried. Zero means 64 KiB.
	BodyBuffer int
	// Probe is the response to Settings.ProbePath.
	Probe func() (ready bool, reason string)
	// HashKey returns the key of the HMAC that appears in the access log as key_hash. Any goroutine
	// may call it. Nil means an empty key.
	HashKey func() []byte
	// WrapKeys returns the HMAC keys for the suffixes of wrapped session ids. The first key creates
	// suffixes, and all keys verify them. Any goroutine may call it. Nil, or an empty result, means the
	// fixed key of a cluster without a secret (package wrapkey).
	WrapKeys func() [][]byte
	// PeerCrashed is called shortly after the connections to another node broke, with the requests
	// that were in progress there. It must not block. Any goroutine may call it. It may be nil.
	PeerCrashed func(poison.Crash)
	// OnHandover is called with the outcome for resumable WebSockets of this node's clients that
	// lost their upstream connections together. It must not block. Only one goroutine calls it. It
	// may be nil.
	OnHandover func(wsession.Handover)
	// MaxConns limits the client connections. At the limit the proxy stops accepting. Zero means
	// 16384, which is less than the usual limit of file descriptors.
	MaxConns int

	// Disable contains the optimizations to turn off. None of them changes a response.
	Disable Optimizations

	// Settings contains the settings that are used until the first call of Apply.
	Settings
}

// Optimizations is a set of optimizations.
type Optimizations struct {
	EventLoop    bool // serves small requests of many clients in one goroutine; see package eventloop
	Multiplexing bool // forwards small requests and resumable WebSockets in streams of one connection per node
	Parking      bool // needs no goroutine for an idle connection; see package connset
	Splice       bool // copies long bodies from connection to connection inside the kernel
}

// withDefaults returns options with zero values replaced by defaults.
func (options Options) withDefaults() Options {
	options.QueueWait = cmp.Or(options.QueueWait, queue.DefaultWait)
	options.MaxUpstreamConns = cmp.Or(options.MaxUpstreamConns, 1024)
	options.MaxShardConns = cmp.Or(options.MaxShardConns, max(options.MaxUpstreamConns/2, 1))
	options.MaxStreams = cmp.Or(options.MaxStreams, 4096)
	options.ResumeTimeout = cmp.Or(options.ResumeTimeout, 20*time.Second)
	options.DrainTimeout = cmp.Or(options.DrainTimeout, 5*time.Second)
	options.ReconnectSpread = cmp.Or(options.ReconnectSpread, 15*time.Second)
	options.PeerConns = cmp.Or(options.PeerConns, 256)
	options.BodyBuffer = cmp.Or(options.BodyBuffer, 64<<10)
	if options.HashKey == nil {
		options.HashKey = func() []byte { return nil }
	}
	options.MaxConns = cmp.Or(options.MaxConns, 16384)
	return options
}
