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

// ErrNotTrusted reports that Past.Meet of this node has refused the other side.
var ErrNotTrusted = errors.New("peer: stream given up")

// errNotPeer is the error of a connection that does not begin with the magic of the protocol.
var errNotPeer = errors.New("peer: not the peer protocol")

// errTLS is the error of a connection that begins with TLS, on a port without TLS.
var errTLS = errors.New("peer: begins as TLS")

// errMalformed is the error of a hello or response with the right magic and an invalid body.
var errMalformed = errors.New("peer: malformed preface")

// IsRefused reports whether err means that no process listens at the address (ECONNREFUSED). At
// the address of a node, this is evidence of its crash. It does not report a refusal by a running
// node, which is a RefusedError.
func IsRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED)
}

// Refusal is the handshake check that failed. The values are part of the protocol.
type Refusal uint8

// Refusals. The value 1 means accepted.
const (
	// RefusedVersion means that the two sides use different protocol versions.
	RefusedVersion Refusal = iota + 2
	// RefusedMalformed means that the hello could not be parsed.
	RefusedMalformed
	// RefusedKind means that the node has no handler for this kind.
	RefusedKind
	// RefusedCluster means that the sides belong to different clusters, or that one belongs to
	// none.
	RefusedCluster
	// RefusedNode means that another node listens at the address.
	RefusedNode
	// RefusedDisk means that the node has another data directory.
	RefusedDisk
	// RefusedBusy means that the limit of open streams of the kind is reached.
	RefusedBusy
	// RefusedUnknown means that the node does not know the dialer. Dial tries again for a while,
	// because gossip may not have announced it yet.
	RefusedUnknown
	// RefusedIdentity means that the certificate of the dialer belongs to another node.
	RefusedIdentity
	// RefusedSeal means that one side uses TLS and the other does not.
	RefusedSeal
	// RefusedPast means that the disk of the dialer is an old image or a copy, as far as the node
	// has recorded. The dialer must stop.
	RefusedPast
	// RefusedSelf means that the disk of the node itself is an old image or a copy, as far as the
	// dialer has recorded.
	RefusedSelf
	// RefusedTwin means that another process with the dialer's node id responds at the address that
	// the node directory lists.
	RefusedTwin
)

func (r Refusal) String() string {
	switch r {
	case RefusedVersion:
		return "version"
	case RefusedMalformed:
		return "malformed"
	case RefusedKind:
		return "kind"
	case RefusedCluster:
		return "cluster"
	case RefusedNode:
		return "node"
	case RefusedDisk:
		return "disk"
	case RefusedBusy:
		return "busy"
	case RefusedUnknown:
		return "unknown"
	case RefusedIdentity:
		return "identity"
	case RefusedSeal:
		return "tls"
	case RefusedPast:
		return "past"
	case RefusedSelf:
		return "self"
	case RefusedTwin:
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

func refuse(code Refusal, format string, args ...any) *RefusedError {
	return &RefusedError{Code: code, Reason: fmt.Sprintf(format, args...)}
}
