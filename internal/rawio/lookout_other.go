//go:build !linux

package rawio

import (
	"errors"
	"net"
)

// Lookout watches sockets that nobody reads: on Linux only.
type Lookout struct{}

// NewLookout makes none here.
func NewLookout() (*Lookout, error) { return nil, errors.ErrUnsupported }

// Add watches nothing here.
func (*Lookout) Add(net.Conn, uint64) error { return errors.ErrUnsupported }

// Keep watches nothing here.
func (*Lookout) Keep(net.Conn, uint64) error { return errors.ErrUnsupported }

// Wake has nobody to wake here.
func (*Lookout) Wake() {}

// Remove has nothing to end here.
func (*Lookout) Remove(net.Conn) error { return errors.ErrUnsupported }

// Wait has nothing to wait for here.
func (*Lookout) Wait(heard []Heard) ([]Heard, error) { return heard, errors.ErrUnsupported }

// Close has nothing to close here.
func (*Lookout) Close() error { return nil }
