//go:build linux

package faultfs

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// Available says what is missing here for Mount and Suffer; nil if nothing is. It
// tries both.
func Available() error {
	if os.Geteuid() != 0 {
		return errors.New("badisk: mounting needs root")
	}
	dir, err := os.MkdirTemp("", "badisk-")
	if err != nil {
		return fmt.Errorf("badisk: %w", err)
	}
	d, err := Mount(dir, page)
	if err != nil {
		_ = os.Remove(dir) // Mount may have
		return err
	}
	return errors.Join(d.Suffer(Fault{Delay: time.Microsecond}), d.Unmount())
}
