package gossip

import (
	"fmt"

	"github.com/hashicorp/serf/serf"
)

// Status is the state of a member in gossip.
type Status int

// The states of a member. The shard map does not distinguish Left and Failed.
const (
	Alive Status = iota + 1
	Leaving
	Left
	Failed
)

// String returns the name for logs and users.
func (s Status) String() string {
	switch s {
	case Alive:
		return "alive"
	case Leaving:
		return "leaving"
	case Left:
		return "left"
	case Failed:
		return "failed"
	}
	return fmt.Sprintf("Status(%d)", int(s))
}

// convertStatus converts a state of Serf. StatusNone is a member for which only an intent was received.
func convertStatus(status serf.MemberStatus) Status {
	switch status {
	case serf.StatusAlive:
		return Alive
	case serf.StatusLeaving:
		return Leaving
	case serf.StatusLeft:
		return Left
	case serf.StatusFailed, serf.StatusNone:
		return Failed
	}
	return Failed
}
