package consensus

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

var (
	// ErrNotLeader means that this node does not lead; nothing has changed.
	ErrNotLeader = errors.New("consensus: not the leader")
	// ErrBusy means that Raft did not accept the request in time; nothing has changed.
	ErrBusy = errors.New("consensus: raft is busy")
	// ErrUnknown means that leadership was lost, or Raft stopped, during the request. The entry may
	// be applied.
	ErrUnknown = errors.New("consensus: outcome unknown")
	// ErrNotVoter means that this server is not a voter.
	ErrNotVoter = errors.New("consensus: not a voter")
	// ErrTooSoon means that the last campaign was less than two election timeouts ago.
	ErrTooSoon = errors.New("consensus: campaigned too recently")
	// ErrTooLate means that the term of the leader that the campaign was directed against has
	// ended.
	ErrTooLate = errors.New("consensus: a newer term has begun")
	// ErrExists means that the server already has a log.
	ErrExists = errors.New("consensus: server has a log already")
)

// translateError wraps an error of the Raft library in the error of this package with the same meaning.
func translateError(err error) error {
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
