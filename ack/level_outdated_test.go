package ack_test

import (
	"errors"
	"testing"

	"shardway/ack"
)

func TestLevelOfDevelopmentVersionIsReportedAsOutdated(t *testing.T) {
	_, _, err := ack.NewState().Apply(1, 1, []byte{1, 0})
	var level *ack.FormatVersionError
	if !errors.As(err, &level) || level.Version != 1 || !level.Outdated() || !errors.Is(err, ack.ErrCorrupt) {
		t.Fatalf("entry of format version 1: %v", err)
	}
	if (&ack.FormatVersionError{Version: ack.MaxFormatVersion + 1}).Outdated() {
		t.Error("a level of a later version is reported as outdated")
	}
}
