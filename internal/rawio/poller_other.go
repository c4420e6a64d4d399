//go:build !linux

package rawio

import (
	"errors"
	"net"
)

// Poller is available on Linux only.
type Poller struct{}

// NewPoller returns errors.ErrUnsupported.
func NewPoller() (*Poller, error) { return nil, errors.ErrUnsupported }

// Add returns errors.ErrUnsupported.
func (*Poller) Add(net.Conn, uint64) error { return errors.ErrUnsupported }

// AddEdgeTriggered returns errors.ErrUnsupported.
func (*Poller) AddEdgeTriggered(net.Conn, uint64) error { return errors.ErrUnsupported }

// Wake does nothing.
func (*Poller) Wake() {}

// Remove returns errors.ErrUnsupported.
func (*Poller) Remove(net.Conn) error { return errors.ErrUnsupported }

// Wait returns errors.ErrUnsupported.
func (*Poller) Wait(events []Event) ([]Event, error) { return events, errors.ErrUnsupported }

// Close does nothing.
func (*Poller) Close() error { return nil }
