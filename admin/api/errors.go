package api

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of actions.
var (
	// ErrNoLeader means that the action needs a leader, and none is known.
	ErrNoLeader = errors.New("no leader")
	// ErrUnknownNode means that the cluster has no such node.
	ErrUnknownNode = errors.New("unknown node")
	// ErrRefused means that the action would cause harm now. The wrapping error must contain the
	// reason and an alternative.
	ErrRefused = errors.New("refused")
	// ErrInvalid means that the action can never succeed. The wrapping error must contain the
	// parameter, its value, the reason and an alternative.
	ErrInvalid = errors.New("invalid")
	// ErrNotLeader means that the action needs a leader, and that the node that was asked does not lead
	// any more, or not yet. Nothing has changed. It is an ErrNoLeader.
	ErrNotLeader = fmt.Errorf("%w", ErrNoLeader)
	// ErrUnknownService means that the cluster has no such service.
	ErrUnknownService = errors.New("unknown service")
	// ErrServiceInUse means that a service cannot be removed, because nodes run it or own its shards, or because
	// the key configuration names it. It is an ErrRefused.
	ErrServiceInUse = fmt.Errorf("%w", ErrRefused)
	// ErrNodeUnhealthy means that the action needs a node that the leader hears. It is an ErrRefused.
	ErrNodeUnhealthy = fmt.Errorf("%w", ErrRefused)
	// ErrNoActiveNodes means that no node could own the shards. It is an ErrRefused.
	ErrNoActiveNodes = fmt.Errorf("%w", ErrRefused)
	// ErrBusy means that the action exceeds a rate. The caller should try again.
	ErrBusy = errors.New("busy")
	// ErrUnknown means that the action may have succeeded, or may still succeed.
	ErrUnknown = errors.New("outcome unknown")
)

const (
	// maxNamedNodes is the maximum number of node IDs in the error for an unknown node.
	maxNamedNodes = 16
	// maxNodeID is the maximum length of the unknown ID in the error, in bytes.
	maxNodeID = 64
)

// UnknownNode returns the error for a node that is not in the cluster. known contains the sorted IDs
// of all nodes, which the error lists because most unknown nodes are typing errors. The error wraps
// ErrUnknownNode.
func UnknownNode(node string, known []string) error {
	names := strings.Join(known[:min(len(known), maxNamedNodes)], ", ")
	switch unnamed := len(known) - maxNamedNodes; {
	case len(known) == 0:
		names = "no nodes yet"
	case unnamed > 0:
		names += fmt.Sprintf(" and %d more (`shardway nodes` lists them)", unnamed)
	}
	return fmt.Errorf("%w %q: the cluster has %s", ErrUnknownNode, node[:min(len(node), maxNodeID)], names)
}

// UnreadyError is the reason why a node is not ready.
type UnreadyError struct {
	// Brief is a few words without names or addresses. Probes show it to callers without a login.
	Brief string
	// Why contains the details for operators. It may be empty.
	Why string
}

// Error returns both texts, or only Why if both start with the same word and a colon.
func (u *UnreadyError) Error() string {
	word, _, _ := strings.Cut(u.Brief, ":")
	switch {
	case u.Why == "":
		return u.Brief
	case strings.HasPrefix(u.Why, word+":"):
		return u.Why
	}
	return u.Brief + ": " + u.Why
}

// Brief returns the part of a readiness error that is safe for callers without a login.
func Brief(err error) string {
	if u, ok := errors.AsType[*UnreadyError](err); ok {
		return u.Brief
	}
	return "not ready"
}
