package node

import (
	"testing"

	"shardway/ack"
)

// Who is in quarantine is dealt with.
func TestQuarantinedSuspectIsNoWarning(t *testing.T) {
	q := &ack.Policy{Quarantined: map[ack.KeyMark]ack.Quarantine{{Shard: 7, Hash: 1, HashKeyID: 3}: {}}}
	if !quarantines(q, 7, 1) || quarantines(q, 7, 2) || quarantines(q, 8, 1) {
		t.Error("a quarantine is of one key")
	}
}
