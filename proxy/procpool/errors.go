package procpool

import (
	"errors"
	"time"
)

// Errors of Options.Dial that do not concern the app.
var (
	// ErrNotOwned means that the node must not run a process of the shard now: it has not acquired the shard, or it
	// has no lease.
	ErrNotOwned = errors.New("procpool: the shard is not acquired")
	// ErrLimit means that the maximum number of processes is running, and all of them are in use.
	ErrLimit = errors.New("procpool: all processes are in use (--exec-max)")
)

// StartError is the error of Options.Dial if a target's process cannot be started or does not become ready.
type StartError struct {
	Reason     string        // may contain file names, so clients must not see it
	RetryAfter time.Duration // time until the next start
}

// Error returns the reason.
func (e *StartError) Error() string { return "procpool: the process failed: " + e.Reason }
