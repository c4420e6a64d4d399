//go:build linux

package faultfs

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// Available returns what is missing on this machine for Mount and SetFault, or nil. It
// tries both.
func Available() error {
	if os.Geteuid() != 0 {
		return errors.New("faultfs: mounting needs root")
	}
	dir, err := os.MkdirTemp("", "faultfs-")
	if err != nil {
		return fmt.Errorf("faultfs: %w", err)
	}
	disk, err := Mount(dir, pageSize)
	if err != nil {
		_ = os.Remove(dir) // Mount may have removed it
		return err
	}
	return errors.Join(disk.SetFault(Fault{Delay: time.Microsecond}), disk.Unmount())
}
