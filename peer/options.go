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
	DefaultHandshakeTimeout = 5 * time.Second
	DefaultMaxConns         = 4096
	DefaultMaxForward       = 16384
	DefaultMaxHandshakes    = 256
	DefaultMaxFromOne       = 64
	DefaultUserTimeout      = 5 * time.Second
	DefaultForwardTimeout   = 60 * time.Second
)

// Voucher is a connection that knows which nodes its other end may speak for.
type Voucher interface {
	// Vouch returns nil if the other end may call itself node.
	Vouch(node string) error
}

// Options says who this node is and how it reaches the others. Functions may
// be called from any goroutine.
type Options struct {
	// Node is this node's id, 1 to 64 bytes.
	Node string
	// Disk is the id of its data directory, at most 64 bytes. Empty: no stream
	// that names a disk is accepted.
	Disk string
	// Boot is its boot counter; see also Port.SetBoot.
	Boot uint64

	// Cluster returns the id of the cluster this node belongs to, empty while
	// it belongs to none. Nil means none.
	Cluster func() string
	// Adopt makes cluster this node's cluster, lastingly. It is called when
	// this node belongs to none and a Raft stream names exactly its node and
	// disk: then the leader of that cluster has added this server. It may be
	// called again, also at the same time, and returns nil only if cluster is
	// this node's when it returns. Nil: such streams are refused.
	Adopt func(cluster string) error

	// Past says what this node says of its disk, and judges what others say of
	// theirs. Nil: nothing is said, and everybody believed.
	Past Past

	// Known reports whether a node may be spoken with: whether it belongs to
	// this one's cluster, or is about to, as far as this node has heard. Others
	// are refused. Nil knows everybody.
	Known func(node string) bool
	// Lookup returns the peer address of a node, this one included. Nil knows
	// none.
	Lookup func(node string) (addr string, ok bool)
	// Dial opens a byte stream to an address. Nil means TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// WrapClient and WrapServer put a layer such as TLS beneath the preface.
	// They finish their handshake or return an error, in which case the caller
	// closes conn. ctx ends with HandshakeTimeout, and reads and writes of conn
	// end with it; deadlines of conn are the caller's. What WrapClient returns is
	// connected with node and nobody else; what WrapServer returns is a Voucher if
	// it knows who dialed. An error of WrapClient with a method DialAgain that says true
	// has the node dialed once more. Nil means plain.
	WrapClient func(ctx context.Context, conn net.Conn, node string) (net.Conn, error)
	WrapServer func(ctx context.Context, conn net.Conn) (net.Conn, error)

	// HandshakeTimeout bounds the preface in either role, and in Dial also the
	// connecting. Zero means 5 s.
	HandshakeTimeout time.Duration
	// MaxConns bounds the accepted open streams of each kind but Forward, so that
	// one kind cannot crowd out another. Zero means 4096.
	MaxConns int
	// MaxForward bounds those of kind Forward: each carries a request, or for hours
	// an upgraded connection. Zero means 16384.
	MaxForward int
	// MaxHandshakes bounds the accepted connections that are not through the
	// preface and do not come from a node's address, all together; one more closes
	// the oldest of the address with most of them. Zero means 256.
	MaxHandshakes int
	// MaxFromOne bounds those from one address, a node's too; one more closes the
	// oldest from there. Zero means 64.
	MaxFromOne int
	// Near reports whether a node of this cluster is at an address, as far as this
	// one has heard. It must not block. Nil: none is.
	Near func(addr netip.Addr) bool

	// UserTimeout is how long sent bytes may stay unacknowledged before the
	// kernel breaks a TCP connection (TCP_USER_TIMEOUT; Linux only). Zero
	// means 5 s, negative leaves the kernel's minutes.
	UserTimeout time.Duration
	// ForwardTimeout is the same for Forward streams. It is longer because the
	// kernel also counts the time in which a reader takes nothing, and the
	// client at the far end may pause. Zero means 60 s, negative as above.
	ForwardTimeout time.Duration

	// Pulse tells when to look whether something has come that the runtime has not said
	// yet. Nil: one of its own, while Serve runs.
	Pulse *clock.Pulse

	// Log gets refusals and broken prefaces. The zero value writes nothing.
	Log zerolog.Logger
}

func (o Options) withDefaults() Options {
	o.HandshakeTimeout = orDefault(o.HandshakeTimeout, DefaultHandshakeTimeout)
	o.MaxConns = orDefault(o.MaxConns, DefaultMaxConns)
	o.MaxForward = orDefault(o.MaxForward, DefaultMaxForward)
	o.MaxHandshakes = orDefault(o.MaxHandshakes, DefaultMaxHandshakes)
	o.MaxFromOne = orDefault(o.MaxFromOne, DefaultMaxFromOne)
	o.UserTimeout = orDefault(o.UserTimeout, DefaultUserTimeout)
	o.ForwardTimeout = orDefault(o.ForwardTimeout, DefaultForwardTimeout)
	if o.Cluster == nil {
		o.Cluster = func() string { return "" }
	}
	if o.Past == nil {
		o.Past = trustingPast{}
	}
	if o.Lookup == nil {
		o.Lookup = func(string) (string, bool) { return "", false }
	}
	if o.Dial == nil {
		o.Dial = dialTCP
	}
	return o
}

// most is how many streams of a kind may be open.
func (o *Options) maxStreams(k Kind) int {
	if k == Forward {
		return o.MaxForward
	}
	return o.MaxConns
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
