package peer

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/clock"
)

// Defaults of Options.
const (
	DefaultHandshakeTimeout       = 5 * time.Second
	DefaultMaxStreamsPerKind      = 4096
	DefaultMaxForwardStreams      = 16384
	DefaultMaxHandshakes          = 256
	DefaultMaxHandshakesPerSource = 64
	DefaultUserTimeout            = 5 * time.Second
	DefaultForwardTimeout         = 60 * time.Second
)

// NodeVerifier is a connection that authenticates its other end, such as TLS with client
// certificates.
type NodeVerifier interface {
	// VerifyNode returns nil if the other end may use the node id.
	VerifyNode(node string) error
}

// Options configures a Port. Its functions may be called from any goroutine.
type Options struct {
	// Node is the id of this node, 1 to 64 bytes.
	Node string
	// Disk is the id of its data directory, up to 64 bytes. Empty means that no stream that names
	// a disk is accepted.
	Disk string
	// Boot is its boot counter; see also Port.SetBoot.
	Boot uint64

	// Cluster returns the id of the cluster of this node, empty if it belongs to none. nil means
	// none.
	Cluster func() string
	// AdoptCluster makes cluster the cluster of this node, durably. It is called when this node belongs
	// to no cluster and a Raft stream names exactly its node and disk: the leader of that cluster
	// has then added this server. It may be called repeatedly and concurrently, and must return
	// nil only if cluster is the cluster of this node on return. nil means that such streams are
	// refused.
	AdoptCluster func(cluster string) error

	// DiskRecords exchanges records about disks, to detect copied or restored ones. nil means that
	// this node reports nothing and accepts every process.
	DiskRecords DiskRecords

	// IsKnownNode reports whether a node belongs to the cluster of this node, or is about to join
	// it. Streams of other nodes are refused. nil means that every node is known.
	IsKnownNode func(node string) bool
	// Lookup returns the peer address of a node, including this one. nil means that no address is
	// known.
	Lookup func(node string) (addr string, ok bool)
	// Dial connects to an address. nil means TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// WrapClient and WrapServer add a layer such as TLS below the handshake of this package. They
	// must complete their own handshake or return an error; the caller then closes conn. ctx ends
	// after HandshakeTimeout, and so do reads and writes of conn; its deadlines belong to the
	// caller. The result of WrapClient must be authenticated as node. The result of WrapServer
	// should be a NodeVerifier if it authenticates the dialer. An error of WrapClient with a method
	// DialAgain that returns true requests another dial. nil means no layer.
	WrapClient func(ctx context.Context, conn net.Conn, node string) (net.Conn, error)
	WrapServer func(ctx context.Context, conn net.Conn) (net.Conn, error)

	// HandshakeTimeout limits the handshake on both sides, and in Dial also connecting. Zero means
	// 5 s.
	HandshakeTimeout time.Duration
	// MaxStreamsPerKind limits the accepted open streams of each kind except Forward. Each kind has
	// its own limit, so that one kind cannot displace another. Zero means 4096.
	MaxStreamsPerKind int
	// MaxForwardStreams limits the accepted open streams of kind Forward, each with a request or, for
	// hours, an upgraded connection. Zero means 16384.
	MaxForwardStreams int
	// MaxHandshakes limits the connections in handshake whose addresses belong to no node. A
	// further connection evicts the oldest one of the address that has the most. Zero means 256.
	MaxHandshakes int
	// MaxHandshakesPerSource limits the connections in handshake from one address, including addresses
	// of nodes. A further connection evicts the oldest one of that address. Zero means 64.
	MaxHandshakesPerSource int
	// IsNodeAddr reports whether gossip has the address for a node of this cluster. It must not
	// block. nil means that none does.
	IsNodeAddr func(addr netip.Addr) bool

	// UserTimeout is how long sent bytes may stay unacknowledged until the kernel closes a TCP
	// connection (TCP_USER_TIMEOUT; Linux only). Zero means 5 s, negative means the default of the
	// kernel (minutes).
	UserTimeout time.Duration
	// ForwardTimeout is the UserTimeout of streams with requests. It is longer because the kernel
	// also counts the time in which a reader accepts nothing, and a client may pause. Zero means
	// 60 s, negative means the default of the kernel.
	ForwardTimeout time.Duration

	// Scheduler triggers polling for data that the runtime poller has not delivered yet. nil means
	// a pulse of its own while Serve runs.
	Scheduler *clock.Scheduler

	// Log receives refusals and failed handshakes. The zero value discards them.
	Log zerolog.Logger
}

func (o Options) withDefaults() Options {
	o.HandshakeTimeout = orDefault(o.HandshakeTimeout, DefaultHandshakeTimeout)
	o.MaxStreamsPerKind = orDefault(o.MaxStreamsPerKind, DefaultMaxStreamsPerKind)
	o.MaxForwardStreams = orDefault(o.MaxForwardStreams, DefaultMaxForwardStreams)
	o.MaxHandshakes = orDefault(o.MaxHandshakes, DefaultMaxHandshakes)
	o.MaxHandshakesPerSource = orDefault(o.MaxHandshakesPerSource, DefaultMaxHandshakesPerSource)
	o.UserTimeout = orDefault(o.UserTimeout, DefaultUserTimeout)
	o.ForwardTimeout = orDefault(o.ForwardTimeout, DefaultForwardTimeout)
	if o.Cluster == nil {
		o.Cluster = func() string { return "" }
	}
	if o.DiskRecords == nil {
		o.DiskRecords = noDiskRecords{}
	}
	if o.Lookup == nil {
		o.Lookup = func(string) (string, bool) { return "", false }
	}
	if o.Dial == nil {
		o.Dial = dialTCP
	}
	return o
}

// maxStreams returns the limit of open streams of a kind.
func (o *Options) maxStreams(kind Kind) int {
	if kind == Forward {
		return o.MaxForwardStreams
	}
	return o.MaxStreamsPerKind
}

func orDefault[T comparable](value, defaultValue T) T {
	var zero T
	if value == zero {
		return defaultValue
	}
	return value
}
