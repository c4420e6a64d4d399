package peer

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrUnknownNode reports that nobody knows the address of the wanted node.
var ErrUnknownNode = errors.New("peer: no address known for the node")

// ErrNoCluster reports a Raft dial by a node that belongs to no cluster: a
// fresh disk that spoke first could make an old voter of the same name count
// twice.
var ErrNoCluster = errors.New("peer: this node belongs to no cluster yet")

// ErrNotTrusted reports that this node refused the answer for the other side's past.
var ErrNotTrusted = errors.New("peer: stream given up")

// errNotPeer is what a connection gets closed for that does not begin as ours.
var errNotPeer = errors.New("peer: not the peer protocol")

// errSealed is a connection that begins as TLS, on a port that speaks none.
var errTLS = errors.New("peer: begins as TLS")

// errMalformed is a preface or answer that begins as ours and then breaks the
// format.
var errMalformed = errors.New("peer: malformed preface")

// IsRefused reports whether err says that nobody listens at the address, which
// on the address of a node that was there is evidence of its crash. A refusal
// by a living node is a RefusedError and not meant here.
func IsRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED)
}

// Refusal says which check of the preface failed. The numbers are part of the
// protocol.
type Refusal uint8

// The refusals. One is the acceptance.
const (
	// RefusedVersion means that the sides speak different versions.
	RefusedVersion Refusal = iota + 2
	// RefusedMalformed means that the preface could not be read.
	RefusedMalformed
	// RefusedKind means that the node does not handle streams of that kind.
	RefusedKind
	// RefusedCluster means that the sides belong to different clusters, or one
	// of them to none.
	RefusedCluster
	// RefusedNode means that another node answers at the address.
	RefusedNode
	// RefusedDisk means that the node is right and its data directory another.
	RefusedDisk
	// RefusedBusy means that as many streams of the kind are open as may be.
	RefusedBusy
	// RefusedUnknown means that the node has not heard of the dialer's. Dial
	// tries again for a while: it may be about to.
	RefusedUnknown
	// RefusedIdentity means that the dialer's certificate is another node's.
	RefusedIdentity
	// RefusedSeal means that one side speaks TLS and the other does not.
	RefusedSeal
	// RefusedPast means that the dialer's disk is an older image of itself, or a
	// copy, as far as the node knows: the dialer must stop.
	RefusedPast
	// RefusedSelf means that the node's own disk is, as far as the dialer knows.
	RefusedSelf
	// RefusedTwin means that another process with the dialer's node id answers
	// where the directory shows it.
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

// RefusedError is a preface refused by a living node. Dial returns it, also
// when it is the dialer who refuses the answer.
type RefusedError struct {
	// Node is the node that was dialed.
	Node string
	// Code says which check failed.
	Code Refusal
	// Reason says it in words and names both sides' values.
	Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("peer: node %q refused the stream: %s", e.Node, e.Reason)
}

func refuse(code Refusal, format string, args ...any) *RefusedError {
	return &RefusedError{Code: code, Reason: fmt.Sprintf(format, args...)}
}
