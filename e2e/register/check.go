//go:build linux

package register

import (
	"errors"
	"time"

	"shardway/e2e/store"
)

// Options are what a test knows beside the operations.
type Options struct {
	// Applied is the log of the store behind the registers; nil: not known. With
	// it a write without an answer was done or was not.
	Applied []store.Applied
	// Timeout bounds the search in all keys. A check that takes longer fails. 0
	// is a minute.
	Timeout time.Duration
}

// Check is nil if the operations on each key are linearizable; else it tells the
// shortest contradiction that it found.
func Check(_ []Op, _ Options) error { return errors.New("register: not built yet") }
