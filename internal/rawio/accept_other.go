//go:build !(linux && (amd64 || arm64))

package rawio

import (
	"errors"
	"net"
	"time"
)

// Inherit does nothing: Accept is not available on this platform.
func Inherit(uintptr) error { return nil }

// SetUserTimeout does nothing: the option is not portable.
func SetUserTimeout(uintptr, time.Duration) error { return nil }

// Accept returns nil on this platform. Use net.Listener.Accept.
func Accept(uintptr) net.Conn { return nil }

// Adopt returns conn unchanged on this platform.
func Adopt(conn net.Conn) net.Conn { return conn }

// Known returns false on this platform.
func Known(net.Conn) bool { return false }

// Part is not supported on this platform.
func Part(net.Conn) error { return errors.ErrUnsupported }
