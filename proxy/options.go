package proxy

import (
	"cmp"
	"context"
	"net"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"shardway/queue"
	"shardway/shardmap"
)

// Options is what a Server is made from. Durations and sizes take their default
// when zero; where "none" makes sense, a negative value means it.
type Options struct {
	// Node is this node's id.
	Node string
	// Shards is how many the cluster has, for Load. Zero: nothing is counted.
	Shards int
	// Cluster is the node around the proxy.
	Cluster Cluster
	// Room is where requests wait. Its Wait is the queue-wait that bounds
	// everything a request waits for.
	Queue *queue.Queue
	// QueueWait is the Room's Wait again; zero means 15 s.
	QueueWait time.Duration
	// Log gets one debug line per failed request and a line per failed accept.
	Log zerolog.Logger

	// DialUpstream opens a connection to the app; see DialURL. Nil is a gateway:
	// it serves no shard itself.
	DialUpstream func(ctx context.Context) (net.Conn, error)
	// KeepUpstream keeps one idle connection to the app until the app closes it, so that
	// UpstreamConnected tells an app that has only closed its port from one that has ended.
	KeepUpstream bool
	// Handler is an app in this process, in the place of DialUpstream. What bounds
	// connections to the app bounds requests that it runs at once.
	Handler fasthttp.RequestHandler
	// HandlerStreams gives the Handler bodies longer than BodyBuffer, or of unknown
	// length, as streams to be read as they come. Without it they are read whole before
	// it is called, up to MaxBody or else 4 MiB.
	HandlerStreams bool
	// Outlived reports that what runs on the app should have been cut by now, because the
	// lease under which it was admitted is long over. The clock says so, to whoever asks:
	// after a stop of the process who is to cut may come later than a Handler goes on. Any
	// goroutine calls it. Nil: never.
	LeaseExpired func() bool
	// AcceptsNewKeys reports whether a node, "" for this one, may get keys that are made here: it is
	// neither draining nor cordoned. Nil means that every node may. Any goroutine calls it.
	AcceptsNewKeys func(node string) bool
	// HookPath is a path of the app that no client reaches, nor what is below it: 404,
	// however it is spelled. It has single slashes, before segments of letters, digits, -
	// and _ only. Empty: there is none.
	HookPath string
	// NotAcquired is told, by any goroutine, that the app says it does not hold a shard
	// under an ownership epoch for which the node admitted a request: by 421 with
	// Shardway-Acquire: 1, having run nothing. A newer table then tells that it does. Nil:
	// such an answer is one like any other.
	NotAcquired func(s shardmap.Shard, epoch uint64)
	// HoldShard is told that the app keeps state of a shard that cannot move, under an
	// ownership epoch, and for how long from now: 0 to MaxHold, 0 ends the hold. A response
	// with Shardway-Hold says so. Any goroutine calls HoldShard, before the request counts as
	// finished. Nil: the header has no effect.
	HoldShard func(s shardmap.Shard, epoch uint64, d time.Duration)
	// AcquireError says why the app has not acquired a shard that this node owns, in a few words
	// for whoever waits for it; empty: it has not failed. Any goroutine calls it. Nil: nobody
	// knows.
	AcquireError func(s shardmap.Shard) string
	// Explain says what is the matter with the cluster, where a request is not served that
	// was held for this reason, or for none. It is asked for answers that say no, by any
	// goroutine. Nil: nobody knows.
	Explain func(why Reason) Explanation
	// MaxUpstreamConns bounds connections to the app; zero means 1024.
	MaxUpstreamConns int
	// MaxShardConns bounds those of them that requests of one shard have; beyond it
	// they wait for each other. Zero means half of MaxUpstreamConns, negative all.
	MaxShardConns int
	// MaxStreams bounds connections to the app that do not count among those: upgraded
	// ones, event streams, and answers that take longer than 10 s; zero means 4096.
	// Beyond it upgrades are refused, and the others count.
	MaxStreams int
	// ResumeTimeout is how long a kept socket may be without a connection to its app while no
	// other one comes back there, and a sixth of how long in all: then its client gets Close
	// 1012. Zero means 20 s.
	ResumeTimeout time.Duration
	// DrainTimeout is how long what runs may take to end when its shard moves, after which
	// the node calls Cut: an app that is asked to end a kept socket has as long. Zero
	// means 5 s.
	DrainTimeout time.Duration
	// ReconnectSpread is over how long the clients of kept sockets are told to come again,
	// one after the other, once Shutdown or Retire is called. Zero means 15 s.
	ReconnectSpread time.Duration
	// PeerConns bounds idle forwarding streams kept per node; zero means 256.
	PeerConns int

	// BodyBuffer is how much of a request's body is kept so that it can go
	// again; zero means 64 KiB.
	BodyBuffer int
	// Probe is the answer to Settings.ProbePath.
	Probe func() (ready bool, reason string)
	// HashKey is the key of the HMAC that stands in the access log as key_hash; any
	// goroutine calls it. Nil: an empty one.
	HashKey func() []byte
	// Wrecked is told, by any goroutine, of requests that were under way at another node
	// when their connections broke, a moment later. It must not block. Nil: nobody wants
	// to know.
	Wrecked func(Wreck)
	// OnHandover is told, by one goroutine, what has happened to kept sockets of clients here
	// that lost their legs together. It must not block. Nil: nobody wants to know.
	OnHandover func(Handover)
	// MaxConns bounds client connections: at the bound accepting pauses. Zero
	// means 16384, less than the usual limit of file descriptors.
	MaxConns int

	// Settings are those in force until the first Apply.
	Settings
}

// withDefaults returns o with every zero replaced.
func (o Options) withDefaults() Options {
	o.QueueWait = cmp.Or(o.QueueWait, 15*time.Second)
	o.MaxUpstreamConns = cmp.Or(o.MaxUpstreamConns, 1024)
	o.MaxShardConns = cmp.Or(o.MaxShardConns, max(o.MaxUpstreamConns/2, 1))
	o.MaxStreams = cmp.Or(o.MaxStreams, 4096)
	o.ResumeTimeout = cmp.Or(o.ResumeTimeout, 20*time.Second)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 5*time.Second)
	o.ReconnectSpread = cmp.Or(o.ReconnectSpread, 15*time.Second)
	o.PeerConns = cmp.Or(o.PeerConns, 256)
	o.BodyBuffer = cmp.Or(o.BodyBuffer, 64<<10)
	if o.HashKey == nil {
		o.HashKey = func() []byte { return nil }
	}
	o.MaxConns = cmp.Or(o.MaxConns, 16384)
	return o
}
