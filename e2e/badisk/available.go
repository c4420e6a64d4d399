//go:build linux

package badisk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// Available says what is missing here for Mount and Trace; nil if nothing is. It
// tries both.
func Available() error {
	if os.Geteuid() != 0 {
		return errors.New("badisk: mounting and tracing need root")
	}
	if _, err := exec.LookPath("strace"); err != nil {
		return fmt.Errorf("badisk: %w", err)
	}
	dir, err := os.MkdirTemp("", "badisk-")
	if err != nil {
		return fmt.Errorf("badisk: %w", err)
	}
	d, err := Mount(dir, page)
	if err != nil {
		return errors.Join(err, os.Remove(dir))
	}
	if err := d.Unmount(); err != nil {
		return err
	}
	return tracing()
}

// tracing traces a child that does nothing.
func tracing() error {
	p, err := begin("sleep", "60")
	if err != nil {
		return err
	}
	defer p.kill()
	t, err := Trace(p.pid, Fault{Delay: time.Microsecond})
	if err != nil {
		return err
	}
	return t.Stop()
}
