package gossip

import (
	"fmt"

	"github.com/hashicorp/serf/serf"
)

// Status is what gossip believes about a member.
type Status int

// The states of a member. For the shard map, left and failed are the same.
const (
	Alive Status = iota + 1
	Leaving
	Left
	Failed
)

// String returns the word for logs and for the user.
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

// statusOf translates Serf's. None is a member of which only an intent is known.
func statusOf(s serf.MemberStatus) Status {
	switch s {
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
