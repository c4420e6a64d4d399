package cause

import "strconv"

// Cause is the reason why another goroutine has cancelled a run.
type Cause uint8

// Causes of a cancellation.
const (
	None         Cause = iota
	DrainTimeout       // CancelShards: the shard moves, and drain-timeout has passed
	Lease              // CancelUpstream: the lease has ended
	Stopping           // CancelForStop: this node stops, and the time limit for running requests has passed
	OwnerLost          // CancelForwarded: the owner has lost the shard without acknowledgement
	PathDead           // the owner sends nothing, not even TCP acknowledgements
	ClientGone         // the client has disconnected, or truncated its body
	Timeout            // the app has not responded within FirstByteTimeout
	TotalTimeout       // the response has not ended within TotalTimeout
	ShardMoved         // a tunnel or an event stream has outlived the move of its shard by StreamGrace
	Leaving            // the same limit for a node that is leaving
	MoveTest           // MoveWebSockets: an operator tests the effect of a crash on WebSockets
	Shutdown           // Shutdown ran out of time, or the context of ServeClients ended
)

// String returns the name of the cause in metrics.
func (c Cause) String() string {
	switch c {
	case None:
		return "none"
	case DrainTimeout:
		return "draining"
	case Lease:
		return "lease"
	case Stopping:
		return "parting"
	case OwnerLost:
		return "abandoned"
	case PathDead:
		return "deaf-path"
	case ClientGone:
		return "client-gone"
	case Timeout:
		return "timeout"
	case TotalTimeout:
		return "total-timeout"
	case ShardMoved:
		return "moved"
	case Leaving:
		return "leaving"
	case MoveTest:
		return "rehearsed"
	case Shutdown:
		return "shutdown"
	}
	return "cause(" + strconv.Itoa(int(c)) + ")"
}
