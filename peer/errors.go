package peer

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrUnknownNode reports that Lookup has no address for the node.
var ErrUnknownNode = errors.New("peer: no address known for the node")

// ErrNoCluster reports a Raft dial by a node that belongs to no cluster. It is not allowed,
// because a node with a new disk could be counted twice: as itself and as an old voter of the same
// name.
var ErrNoCluster = errors.New("peer: this node belongs to no cluster yet")

// ErrNotTrusted reports that DiskRecords.CheckHandshake of this node has refused the other side.
var ErrNotTrusted = errors.New("peer: stream given up")

// errNotPeerProtocol is the error of a connection that does not begin with the magic of the protocol.
var errNotPeerProtocol = errors.New("peer: not the peer protocol")

// errUnexpectedTLS is the error of a connection that begins with a TLS handshake, on a port without
// TLS.
var errUnexpectedTLS = errors.New("peer: begins as TLS")

// errMalformed is the error of a hello or response with the right magic and an invalid body.
var errMalformed = errors.New("peer: malformed preface")

// IsRefused reports whether err means that no process listens at the address (ECONNREFUSED). At
// the address of a node, this is evidence of its crash. It does not report a refusal by a running
// node, which is a RefusedError.
func IsRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED)
}

// IsLocalFailure reports whether a dial failed before it could reach the other node: this node has no
// file descriptor, port or memory left, or has no address of the other node. Such an error is no
// evidence about the other node.
func IsLocalFailure(err error) bool {
	for _, cause := range []error{ErrUnknownNode, syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// Refusal is the code of the handshake check that failed. The values are part of the protocol.
type Refusal uint8

// Refusals. The value 1 means accepted.
const (
	// RefusedVersionMismatch means that the two sides use different protocol versions.
	RefusedVersionMismatch Refusal = iota + 2
	// RefusedMalformed means that the hello could not be parsed.
	RefusedMalformed
	// RefusedUnsupportedKind means that the node has no handler for this kind.
	RefusedUnsupportedKind
	// RefusedClusterMismatch means that the sides belong to different clusters, or that one side
	// belongs to none.
	RefusedClusterMismatch
	// RefusedWrongNode means that the node at the address is not the one that the dialer wants.
	RefusedWrongNode
	// RefusedWrongDisk means that the data directory of the node is not the one that the dialer
	// wants.
	RefusedWrongDisk
	// RefusedStreamLimit means that the node has as many open streams of this kind as Options
	// permits.
	RefusedStreamLimit
	// RefusedUnknownNode means that the node does not know the dialer. Dial tries again for some
	// seconds, because gossip may not have announced the dialer yet.
	RefusedUnknownNode
	// RefusedWrongCertificate means that the certificate of the dialer belongs to another node.
	RefusedWrongCertificate
	// RefusedTLSMismatch means that one side uses TLS and the other does not.
	RefusedTLSMismatch
	// RefusedStaleDialerDisk means that the data directory of the dialer is an old image or a copy,
	// according to the records of the node. The dialer must stop.
	RefusedStaleDialerDisk
	// RefusedStaleListenerDisk means that the data directory of the node itself is an old image or a copy,
	// according to the records of the dialer.
	RefusedStaleListenerDisk
	// RefusedDuplicateNode means that another process responds at the address that gossip has for the
	// dialer's node id.
	RefusedDuplicateNode
)

func (r Refusal) String() string {
	switch r {
	case RefusedVersionMismatch:
		return "version"
	case RefusedMalformed:
		return "malformed"
	case RefusedUnsupportedKind:
		return "kind"
	case RefusedClusterMismatch:
		return "cluster"
	case RefusedWrongNode:
		return "node"
	case RefusedWrongDisk:
		return "disk"
	case RefusedStreamLimit:
		return "busy"
	case RefusedUnknownNode:
		return "unknown"
	case RefusedWrongCertificate:
		return "identity"
	case RefusedTLSMismatch:
		return "tls"
	case RefusedStaleDialerDisk:
		return "past"
	case RefusedStaleListenerDisk:
		return "self"
	case RefusedDuplicateNode:
		return "twin"
	default:
		return fmt.Sprintf("Refusal(%d)", uint8(r))
	}
}

// RefusedError is the refusal of a handshake by a running node. Dial also returns it if the dialer
// refuses the response.
type RefusedError struct {
	// Node is the node that was dialed.
	Node string
	// Code is the check that failed.
	Code Refusal
	// Reason is a sentence that contains the values of both sides.
	Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("peer: node %q refused the stream: %s", e.Node, e.Reason)
}

// newRefusal returns an error with a code and a formatted reason. The caller sets the node.
func newRefusal(code Refusal, format string, args ...any) *RefusedError {
	return &RefusedError{Code: code, Reason: fmt.Sprintf(format, args...)}
}
