package node

import (
	"time"

	"shardway/shardmap"
)

// Who lacks what is committed is told at once, and again for as long as it does: after nudgeAgain,
// and each time after twice as long, nudgeSeldom at most. The library by itself says what is
// committed every few seconds, see consensus.Raft.Nudge.
const (
	nudgeAgain  = 500 * time.Millisecond
	nudgeSeldom = 8 * time.Second
)

// nudges has for whose sake the followers were told what is committed.
type nudges map[shardmap.NodeID]nudge

type nudge struct {
	lag  lag
	at   time.Time // the last one
	next time.Duration
}

// lag is that a process has not come to a map yet.
type lag struct {
	nonce uint64
	epoch shardmap.Epoch
}

// due reports whether the followers are to be told for the sake of a node that lags: an entry is
// written for that.
func (n nudges) due(node shardmap.NodeID, l lag, now time.Time) bool {
	last, known := n[node]
	next := nudgeAgain
	if known && last.lag == l {
		if now.Sub(last.at) < last.next {
			return false
		}
		next = min(2*last.next, nudgeSeldom)
	}
	n[node] = nudge{l, now, next}
	return true
}
