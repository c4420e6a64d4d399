//go:build !linux

package procguard

import (
	"context"
	"errors"
	"time"
)

// errUnsupported is the error of Start on this platform.
var errUnsupported = errors.New("procguard: --exec needs Linux; start the app yourself and set --upstream")

// Client is the node's end of a guard. There is none on this platform.
type Client struct{}

// ErrGuardEnded is the error of a command to a guard that has ended.
var ErrGuardEnded = errors.New("procguard: the guard of the child processes has ended")

// Start returns an error.
func Start(context.Context, string, []string, Events) (*Client, error) { return nil, errUnsupported }

// StartChild returns an error.
func (c *Client) StartChild(uint64, *Spec) error { return errUnsupported }

// StopChild returns an error.
func (c *Client) StopChild(uint64, time.Duration) error { return errUnsupported }

// SetDeadline returns an error.
func (c *Client) SetDeadline(_, _ time.Duration) error { return errUnsupported }

// Close does nothing.
func (c *Client) Close() {}

// Boottime returns zero.
func Boottime() time.Duration { return 0 }

// IsGuard returns false.
func IsGuard() bool { return false }

// Main returns an exit code.
func Main() int { return 1 }

// ListenerOwner returns ListenerUnknown.
func ListenerOwner(int, uint16) ListenerOwnership { return ListenerUnknown }
