package leaderloop

import (
	"testing"

	"shardway/ack"
)

// A suspect that is in quarantine needs no further warning.
func TestQuarantinedSuspectIsNoWarning(t *testing.T) {
	q := &ack.Policy{Quarantined: map[ack.KeyFingerprint]ack.Quarantine{{Shard: 7, Hash: 1, HashKeyID: 3}: {}}}
	if !IsQuarantined(q, 7, 1) || IsQuarantined(q, 7, 2) || IsQuarantined(q, 8, 1) {
		t.Error("a quarantine is of one key")
	}
}
