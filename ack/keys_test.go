package ack_test

import (
	"testing"

	"shardway/ack"
)

func TestKeysDigestTellsConfigurationsApart(t *testing.T) {
	if ack.KeysDigest("") != 0 {
		t.Error("the empty text has a digest")
	}
	if a, b := ack.KeysDigest("a"), ack.KeysDigest("b"); a == 0 || a == b {
		t.Errorf("%x and %x", a, b)
	}
}
