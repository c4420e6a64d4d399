package node

import (
	"time"

	"shardway/shardmap"
)

// Who is heard for the first time, and who lacks what is committed, is told that at once. Who
// lacks it still is told again after nudgeAgain, and each time after twice as long, nudgeMost times
// in all. The library by itself says what is committed every few seconds, see
// consensus.Raft.Nudge.
const (
	nudgeAgain = 500 * time.Millisecond
	nudgeMost  = 6
)

// nudges has for whose sake the followers were told what is committed.
type nudges map[shardmap.NodeID]nudge

type nudge struct {
	lag   lag
	at    time.Time // the last one
	times int       // for this lag
}

// lag is that a process has not come to a map yet.
type lag struct {
	nonce uint64
	epoch shardmap.Epoch
}

// due reports whether the followers are to be told for the sake of a node that is heard, and lags
// or not: an entry is written for that. What a process lacks that has just begun need not be the
// map.
func (n nudges) due(node shardmap.NodeID, l lag, lags bool, now time.Time) bool {
	last, known := n[node]
	switch {
	case !known || last.lag.nonce != l.nonce:
		last.times = 0
	case !lags:
		return false
	case last.lag != l:
		last.times = 0
	case last.times >= nudgeMost || now.Sub(last.at) < nudgeAgain<<max(last.times-1, 0):
		return false
	}
	n[node] = nudge{l, now, last.times + 1}
	return true
}
