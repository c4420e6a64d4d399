package nextversion_test

import (
	"testing"

	"shardway/e2e/kit/nextversion"
)

// The edits quote declarations of package ack. Once, one of them had been formatted differently, and
// only a test of whole clusters noticed it.
func TestOverlayFindsItsDeclarations(t *testing.T) {
	if _, err := nextversion.Overlay("../../..", t.TempDir()); err != nil {
		t.Fatal(err)
	}
}
