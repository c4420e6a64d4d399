package consensus

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

var (
	// ErrNotLeader reports that this node does not lead; nothing was changed.
	ErrNotLeader = errors.New("consensus: not the leader")
	// ErrBusy reports that Raft did not take the request in time; nothing was
	// changed.
	ErrBusy = errors.New("consensus: raft is busy")
	// ErrUnknown reports that leadership was lost, or Raft stopped, while the
	// entry was under way: it may be applied, and it may not.
	ErrUnknown = errors.New("consensus: outcome unknown")
	// ErrNoVote reports that this server has no vote.
	ErrNoVote = errors.New("consensus: not a voter")
	// ErrTooSoon reports a campaign within two election timeouts of the last.
	ErrTooSoon = errors.New("consensus: campaigned a moment ago")
	// ErrTooLate reports a campaign against a leader whose term is over.
	ErrTooLate = errors.New("consensus: another term has begun")
	// ErrExists reports that the server has a log already.
	ErrExists = errors.New("consensus: server has a log already")
)

// translate names what Raft's error means for the caller.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrRaftShutdown), errors.Is(err, raft.ErrAbortedByRestore):
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	case errors.Is(err, raft.ErrCantBootstrap):
		return fmt.Errorf("%w: %w", ErrExists, err)
	default:
		return fmt.Errorf("consensus: %w", err)
	}
}
